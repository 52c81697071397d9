/** Compares a replayed run with the recorded one. */

import type { ProcInfo } from "../../kernel/types.ts";
import type { Difference } from "../../protocol/methods.ts";
import type { ProcessMeta, StepRecord } from "../../store/runs/schema.ts";
import { type PlayedSteps, playedSteps } from "./played-steps.ts";
import type { Run } from "./recorded-run.ts";

/** Maximum lines and items shown of one difference. */
const MAX_SHOWN = 20;

export interface Comparison {
  differences: Difference[];
  /** Steps of the recorded run that were not played: they answer messages that came after an answer. */
  unplayed_steps: number;
}

/**
 * Compares a replayed run with the recorded one: its agent's definition, the results of its calls, and its end. No
 * differences if both are equal as far as the run was replayed.
 */
export async function compareRuns(recorded: Run, replayed: Run): Promise<Comparison> {
  const [before, after] = [recorded.info, replayed.info];
  const [metaBefore, metaAfter] = await Promise.all([metaOf(recorded), metaOf(replayed)]);
  const definition = [
    ...prompt(metaBefore, metaAfter, before, after),
    ...tools(metaBefore, metaAfter),
    ...list("rights", "allowed tools", before.allowed_tools, after.allowed_tools),
    ...list("rights", "denied tools", before.permissions.deny, after.permissions.deny),
    ...limits(before, after),
    ...list("checks", "checks", metaBefore?.spawned?.checks ?? [], metaAfter?.spawned?.checks ?? []),
  ];
  const played = await playedSteps(recorded);
  const { left: unplayed_steps } = played;
  const diverged = divergence(after);
  if (diverged) return { differences: [...definition, diverged], unplayed_steps };
  const differences = [
    ...definition,
    ...(await steps(recorded, replayed, played.last)),
    ...outcome(endOf(before, after, played), after),
  ];
  return { differences, unplayed_steps };
}

/** The recorded run as it was after its last played step. */
function endOf(before: ProcInfo, after: ProcInfo, { left, end, hasResult }: PlayedSteps): ProcInfo {
  if (left === 0) return before;
  return { ...before, ...end, ...(!hasResult && { result: after.result }), checks: after.checks };
}

function metaOf({ info, records }: Run): Promise<ProcessMeta | null> {
  return records.meta(info.uuid);
}

/** The replay driver's error when a call had another result. */
function divergence({ exit_reason, error, steps }: ProcInfo): Difference | undefined {
  if (exit_reason !== "llm_error" || error?.code !== "INVALID") return undefined;
  // The step that was begun is the one after the call's.
  return {
    kind: "result",
    step: Math.max(1, steps - 1),
    message: error.message,
    recorded: null,
    replayed: null,
  };
}

function prompt(
  before: ProcessMeta | null,
  after: ProcessMeta | null,
  then: ProcInfo,
  now: ProcInfo,
): Difference[] {
  if (!before || !after) return [];
  const old = plainPrompt(before.system_prompt, then);
  const today = plainPrompt(after.system_prompt, now);
  if (old.join("\n") === today.join("\n")) return [];
  const gone = old.filter((line) => !today.includes(line));
  const fresh = today.filter((line) => !old.includes(line));
  const message =
    gone.length + fresh.length === 0
      ? "the system prompt has its lines in another order"
      : "the system prompt";
  return [{ kind: "prompt", step: null, message, recorded: some(gone), replayed: some(fresh) }];
}

/** Returns the lines of a prompt without what differs by day and folder. */
function plainPrompt(text: string, { cwd, project }: ProcInfo): string[] {
  return text
    .replaceAll(cwd, "<cwd>")
    .replaceAll(project, "<project>")
    .replace(/^Project folder: .*\n/m, "")
    .replace(/^Date: .*$/m, "Date")
    .split("\n");
}

function tools(before: ProcessMeta | null, after: ProcessMeta | null): Difference[] {
  if (!before || !after) return [];
  const old = new Map(before.tools.map((tool) => [tool.name, tool]));
  const today = new Map(after.tools.map((tool) => [tool.name, tool]));
  const changed = [...old].flatMap(([name, tool]): Difference[] => {
    const other = today.get(name);
    if (!other || JSON.stringify(tool) === JSON.stringify(other)) return [];
    const what = tool.description === other.description ? "input" : "description";
    const [recorded, replayed] = [tool, other].map((one) =>
      what === "input" ? JSON.stringify(one.input) : one.description,
    );
    const message = `the ${what} of the tool ${name}`;
    return [{ kind: "tools", step: null, message, recorded: recorded ?? null, replayed: replayed ?? null }];
  });
  return [...list("tools", "tools offered", [...old.keys()], [...today.keys()]), ...changed];
}

/** Compares the limits, except the cost, which a replay has not. */
function limits(before: ProcInfo, after: ProcInfo): Difference[] {
  return (["max_steps", "context_budget", "timeout_ms"] as const).flatMap((name) => {
    const [recorded, replayed] = [before[name] ?? "unlimited", after[name] ?? "unlimited"].map(String);
    return list("limits", name, [recorded ?? ""], [replayed ?? ""]);
  });
}

/** Texts of results are compared by the driver; how the calls of the last step went, only the records show. */
async function steps(recorded: Run, replayed: Run, last: number): Promise<Difference[]> {
  const [all, after] = await Promise.all([stepsOf(recorded), stepsOf(replayed)]);
  const before = all.filter(({ step }) => step <= last);
  const differences: Difference[] = [];
  if (before.length !== after.length) {
    const count = ({ length }: { length: number }): string => `${length} ${length === 1 ? "step" : "steps"}`;
    const [recorded, replayed] = [count(before), count(after)];
    differences.push({ kind: "outcome", step: null, message: "steps", recorded, replayed });
  }
  for (const [index, step] of before.entries()) {
    const other = after[index];
    if (!other) break;
    // The result of a call that was cut off is unknown.
    if (step.tool_calls.some(isCutOff)) continue;
    const [old, today] = [step.tool_calls.map(wentSo), other.tool_calls.map(wentSo)];
    const what = `how the calls of step ${step.step} went`;
    for (const one of list("result", what, old, today, true)) {
      differences.push({ ...one, step: step.step });
    }
  }
  return differences;
}

function stepsOf({ info, records }: Run): Promise<Pick<StepRecord, "step" | "tool_calls">[]> {
  return Array.fromAsync(records.everyStep(info.uuid), ({ step, tool_calls }) => ({ step, tool_calls }));
}

function isCutOff({ state }: StepRecord["tool_calls"][number]): boolean {
  return !["done", "failed", "denied"].includes(state);
}

function wentSo({ name, state, error_code }: StepRecord["tool_calls"][number]): string {
  return error_code === null ? `${name} ${state}` : `${name} ${state} (${error_code})`;
}

function outcome(before: ProcInfo, after: ProcInfo): Difference[] {
  const end = ({ exit_code, exit_reason }: ProcInfo): string => `${exit_reason} (exit ${exit_code})`;
  const checks = (info: ProcInfo): string[] =>
    info.checks.map(({ command, exit_code }) => `${command}: ${exit_code}`);
  const why = after.error === null ? "" : `: ${after.error.message}`;
  return [
    ...list("outcome", `how it ended${why}`, [end(before)], [end(after)]),
    ...list("outcome", "the result", [before.result ?? ""], [after.result ?? ""]),
    ...list("outcome", "the checks", checks(before), checks(after)),
  ];
}

/** Compares two lists and reports items of one only; `whole`: their order counts. */
function list(
  kind: Difference["kind"],
  message: string,
  before: readonly string[],
  after: readonly string[],
  whole = false,
): Difference[] {
  if (JSON.stringify(before) === JSON.stringify(after)) return [];
  const gone = whole ? before : before.filter((one) => !after.includes(one));
  const fresh = whole ? after : after.filter((one) => !before.includes(one));
  if (gone.length + fresh.length === 0) return [];
  return [{ kind, step: null, message, recorded: some(gone), replayed: some(fresh) }];
}

function some(lines: readonly string[]): string | null {
  if (lines.length === 0) return null;
  const more = lines.length > MAX_SHOWN ? `\n… ${lines.length - MAX_SHOWN} more` : "";
  return lines.slice(0, MAX_SHOWN).join("\n") + more;
}
