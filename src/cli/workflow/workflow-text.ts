/** A workflow's run as text: its state, and its agents by phase. */

import type { ListedProc } from "../../protocol/methods.ts";
import { doingText } from "../output/doing.ts";
import { formatCost, formatCount, formatElapsed, oneLine, plural } from "../output/format.ts";
import type { Style } from "../output/style.ts";

const TITLE = 40;

export function workflowText(
  { run, agents }: { run: ListedProc; agents: readonly ListedProc[] },
  style: Style,
  now: number,
): string {
  const ended = agents.filter(({ ended_at_ms, status }) => ended_at_ms !== null && status !== "suspended");
  const failed = ended.filter(({ exit_code }) => exit_code !== 0);
  const counts = `${ended.length} of ${plural(agents.length, "agent")} ended${failed.length > 0 ? `, ${failed.length} failed` : ""}`;
  const used = `${formatCount(run.tokens_used)} tokens, ${formatCost(run.cost_usd)}, ${formatElapsed(run.elapsed_ms)}`;
  const lines = [
    `${style.bold(run.workflow?.name ?? run.agent)}  ${run.uuid}  ${stateOf(run)}`,
    `${counts}; ${used}`,
    ...(run.error ? [style.red(oneLine(run.error.message, 400))] : []),
  ];
  for (const [phase, of] of Map.groupBy(agents, ({ workflow }) => workflow?.phase ?? "")) {
    lines.push("", style.bold(phase === "" ? "agents" : phase));
    for (const agent of of) lines.push(`  ${lineOf(agent, style, now)}`);
  }
  return `${lines.join("\n")}\n`;
}

function lineOf(info: ListedProc, style: Style, now: number): string {
  const { workflow, intent, steps, tokens_used, elapsed_ms, exit_code, ended_at_ms, uuid, doing } = info;
  const title = oneLine(workflow?.label ?? intent, TITLE);
  const mark = ended_at_ms === null ? "…" : exit_code === 0 ? style.green("✓") : style.red("✗");
  const now_ = ended_at_ms === null && doing ? `  ${doingText(doing, now, style)}` : "";
  const use = `${plural(steps, "step")}, ${formatCount(tokens_used)} tokens, ${formatElapsed(elapsed_ms)}`;
  return `${mark} ${title}  ${style.dim(`${uuid.slice(0, 18)} ${stateOf(info)}, ${use}`)}${now_}`;
}

function stateOf({ status, exit_reason, exit_code }: ListedProc): string {
  return exit_code === null ? status : (exit_reason ?? status);
}
