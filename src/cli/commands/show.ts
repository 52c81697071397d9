/** `rnix show`: prints all details of one process. */

import { unitDetail } from "../../daemons/unit-line.ts";
import { recordedMode } from "../../lib/ask-modes.ts";
import type { Taint } from "../../lib/taint.ts";
import { namesWith, optionOf } from "../../options/option-list.ts";
import type { ProcDetail } from "../../protocol/methods.ts";
import { defineCommand } from "../command.ts";
import { json } from "../flags.ts";
import { doingText } from "../output/doing.ts";
import { formatBytes, formatCost, formatElapsed, printable } from "../output/format.ts";
import { print } from "../output/print.ts";
import type { Style } from "../output/style.ts";
import { waitsFor } from "../output/suspension.ts";
import { fields } from "../output/table.ts";
import { RECORD_FROM, RUN_ARGUMENT, withRecordedRun } from "../processes/target.ts";

export default defineCommand({
  about: "Print everything about one process: identity, rights, budgets, mounts, open files, verdict",
  args: [RUN_ARGUMENT],
  flags: { json, ...RECORD_FROM },
  examples: {
    "rnix show 3": "live, or from its record",
    "rnix show 0199 --json": "by the beginning of its UUID, as one object",
  },
  run(io, flags, [pid]) {
    return withRecordedRun(io, flags.record, pid, async (wire, of) => {
      const detail = await wire.request("show", of);
      return print(io, flags, detail, (style) => text(detail, style));
    });
  },
});

/** Rules of the run itself, revoked ones, and those of its ancestors. */
function askedBy({ ask = [], ask_above = [], ...modes }: ProcDetail["permissions"]): string[] {
  const mode = recordedMode(modes);
  return [...ask, ...ask_above, ...(mode === "off" ? [] : [`the mode ${mode}`])];
}

function deniedBy({ deny, revoked = [], deny_above = [] }: ProcDetail["permissions"]): string[] {
  return [...deny, ...revoked.map(({ rule }) => rule), ...deny_above];
}

/** Names and values. One without a value is not printed. */
type Pairs = [string, string | null][];

function text(p: ProcDetail, style: Style): string {
  const sections: [string, Pairs][] = [
    ["process", identityOf(p, style)],
    ["use", useOf(p)],
    ["rights", isAgent(p) ? rightsOf(p) : []],
    ["mounts", p.mounts.map(({ path, type, down }) => [type, down ? `${path}: ${down}` : path])],
    [
      "units",
      p.all_units.map((unit) => [
        unit.id,
        `${unit.kind} ${unit.status}${unitDetail(unit)}: ${unit.description}`,
      ]),
    ],
    ["network", p.connections.map((one) => [one.host, connectionText(one)])],
    ["open files", p.fds.map(({ fd, path }) => [String(fd), path])],
    ["children", p.children.map((c) => [String(c.pid), `${c.agent} ${c.exit_reason ?? "runs"} ${c.uuid}`])],
    ["end", endOf(p)],
    ["versions", Object.entries(p.versions)],
  ];
  return sections.map(([title, pairs]) => section(title, pairs, style)).join("");
}

/** Supervisors and programs lack the fields that only agents have. */
function isAgent({ kind }: ProcDetail): boolean {
  return kind === "agent";
}

function identityOf(p: ProcDetail, style: Style): Pairs {
  return [
    ["pid", `${p.pid}, child of ${p.ppid}`],
    ["uuid", p.uuid],
    ["parent", p.parent_uuid],
    ["forked from", p.origin_uuid],
    ["state", `${p.status}${p.live ? ", live" : ""}`],
    ["doing", p.doing && doingText(p.doing, Date.now(), style)],
    ["record", recordOf(p)],
    ["waits for", p.suspended && waitsFor(p.suspended)],
    ["intent", p.intent],
    [isAgent(p) ? "agent" : "kind", p.agent],
    ["skills", list(p.skills)],
    ["model", isAgent(p) ? modelOf(p) : null],
    ["effort", p.effort],
    ...optionsOf(p),
    ["instead of", list(p.switches.map(insteadOf), "\n")],
    ["falls back to", list(p.fallback.map(modelOf))],
    ["project", p.project],
    ["folder", p.cwd],
    ["base", p.base && `${p.base.ref} (${p.base.commit})`],
    ["notices", list(p.notices, "\n")],
    ["created", new Date(p.created_at_ms).toISOString()],
    ["ended", p.ended_at_ms === null ? null : new Date(p.ended_at_ms).toISOString()],
  ];
}

/** The recorded options that the table of options has a name for. */
function optionsOf({ options }: ProcDetail): Pairs {
  return namesWith({ recorded: "options" }).flatMap((name): Pairs => {
    const { shown } = optionOf(name);
    return shown && options[name] !== undefined ? [[shown, String(options[name])]] : [];
  });
}

function useOf(p: ProcDetail): Pairs {
  const { usage, context } = p;
  const time = `${formatElapsed(p.elapsed_ms)} of ${p.timeout_ms === null ? "unlimited" : formatElapsed(p.timeout_ms)}`;
  const spent: Pairs = [
    ["steps", ofLimit(p.steps, p.max_steps)],
    ["tokens", ofLimit(p.tokens_used, p.context_budget)],
    ["usage", `${usage.input_tokens} in (${usage.cached_tokens} cached), ${usage.output_tokens} out`],
    ["cost", `${formatCost(p.cost_usd)}${p.max_cost === null ? "" : ` of ${formatCost(p.max_cost)}`}`],
    ["time", time],
    ["context", context && `${context.messages} messages (space ${p.ctx_id})`],
    ["tool calls", String(p.tool_calls)],
  ];
  if (isAgent(p)) return spent;
  const shared = p.kind === "command" ? ["time"] : ["tokens", "cost", "time"];
  return spent.filter(([name]) => shared.includes(name));
}

function endOf(p: ProcDetail): Pairs {
  const checks = p.checks.map(
    ({ command, exit_code, attempt = 1 }) =>
      `${command}: exit ${exit_code ?? "none"}${attempt > 1 ? `, attempt ${attempt}` : ""}`,
  );
  return [
    ["exit", p.exit_code === null ? null : `${p.exit_code} ${p.exit_reason ?? ""}`],
    ["error", p.error === null ? null : `${p.error.code}: ${p.error.message}`],
    ["checks", list(checks, "\n")],
    ["changed", list(p.files_changed, "\n")],
    ["result", p.result === null ? null : `${p.result}${p.partial ? "\n(cut off)" : ""}`],
  ];
}

function modelOf({ model, provider }: { model: string; provider: string }): string {
  return `${model} of ${provider}`;
}

function recordOf({ foreign, moved_from, uuid }: ProcDetail): string | null {
  if (foreign) return `foreign: your Rnix did not write it (rnix resume --adopt ${uuid})`;
  return moved_from === undefined ? null : `recorded in ${moved_from}, and copied or moved here`;
}

function insteadOf({ step, from, error }: ProcDetail["switches"][number]): string {
  const was = modelOf(from);
  if (error === null) return `${was}, until you chose another before step ${step}`;
  return `${was}, which failed in step ${step} (${error.code}: ${error.message})`;
}

function rightsOf({ permissions, ...p }: ProcDetail): Pairs {
  return [
    ["tools", list(p.allowed_tools)],
    ["devices", list(p.allowed_devices)],
    ["allow", permissions.allow.map((layer) => list(layer) ?? "nothing").join("\nand ")],
    ["deny", list(deniedBy(permissions))],
    ["ask", list(askedBy(permissions))],
    ["always", list(permissions.always ?? [])],
    [
      "opened",
      list((permissions.opened ?? []).map(({ dir, write }) => (write ? dir : `${dir} for reading`))),
    ],
    ["sandbox", p.sandbox],
    ["limits", p.program_limits],
    ["tainted", permissions.taint ? taintText(permissions.taint) : null],
  ];
}

function connectionText({ count, failed, sent, received }: ProcDetail["connections"][number]): string {
  const bytes = sent + received === 0 ? "" : `, ${formatBytes(sent)} sent, ${formatBytes(received)} received`;
  const made = `${count} ${count === 1 ? "connection" : "connections"}${bytes}`;
  return failed === 0 ? made : `${made}, ${failed} refused or failed`;
}

function taintText({ origin, source, policy }: Taint): string {
  const how = { ask: "; what acts outside is asked for", refuse: "; what acts outside is refused", off: "" };
  return `${origin}: ${source}${how[policy]}`;
}

function section(title: string, pairs: Pairs, style: Style): string {
  const known = pairs.flatMap(([name, value]): [string, string][] =>
    value === null ? [] : [[`  ${name}`, printable(value)]],
  );
  return known.length === 0 ? "" : `${style.bold(title)}\n${fields(known, style)}`;
}

function list(items: string[], by = ", "): string | null {
  return items.length === 0 ? null : items.join(by);
}

function ofLimit(used: number, limit: number | null): string {
  return `${used} of ${limit ?? "unlimited"}`;
}
