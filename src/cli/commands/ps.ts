/** `rnix ps`: lists processes. */

import { childOf } from "../../daemons/snapshot.ts";
import type { ProcInfo } from "../../kernel/types.ts";
import { MAX_AGE_MS } from "../../lib/duration.ts";
import type { DaemonSnapshot } from "../../plugin/index.ts";
import type { ListedProc } from "../../protocol/methods.ts";
import { RUN_STATUSES } from "../../protocol/run-status.ts";
import type { Payload } from "../../server/methods/method-table.ts";
import { defineCommand } from "../command.ts";
import { bool, choice, count, json, milliseconds, one, text } from "../flags.ts";
import { type Io, type Wire, withWire } from "../io.ts";
import { doingText } from "../output/doing.ts";
import { cut, formatCost, formatCount, formatElapsed } from "../output/format.ts";
import { print } from "../output/print.ts";
import type { Style } from "../output/style.ts";
import { waitsFor } from "../output/suspension.ts";
import { type Column, table } from "../output/table.ts";

const PAGE = 1000;
/** The longest page of the server. */
const MAX_PAGE = 10_000;
/** Maximum columns of an intent, also in a pipe: one for a child may have a megabyte. --json has all of it. */
const INTENT_WIDTH = 1000;

export default defineCommand({
  about: "List processes",
  lists: true,
  flags: {
    all: bool("include ended and suspended processes", { short: "a" }),
    tree: bool("show children below their parents, and the origin of each fork"),
    "all-projects": bool("list every project, with a PROJECT column"),
    agent: text("only processes of this agent", "NAME"),
    state: choice("only processes in this state", RUN_STATUSES),
    since: one(
      "only processes that began within this time, such as 2h or 30d, or since a date",
      "DUR|DATE",
      {},
      "a duration such as 2h or 30d, or a date such as 2026-11-20",
      past,
    ),
    limit: count("only the newest ones, at most this many", "N"),
    json,
  },
  examples: {
    "rnix ps": "what runs in this project",
    "rnix ps -a --state failed --since 2d": "what failed in the last two days",
    "rnix ps -a --json": "every recorded process, as an array of objects",
  },
  notes: [
    "DOING is what a live run does now, what a suspended one waits for, and how an ended one ended. A suspended run is listed without -a if it resumes by itself. INTENT of a conversation is the name that /name gave it, if any; --json has its first message.",
    "On a narrow terminal, columns are left out and truncated; in a pipe, and with --json, nothing is. --json has `status`, as STATE, and the kernel's `state`, where `dead` is any end.",
    "A foreign run was recorded by another user's Rnix and is never resumed (rnix resume --adopt takes over its conversation). A moved run was recorded in another folder; rnix resume resumes it here.",
  ],
  async run(io, flags) {
    const { all, agent, state: status, since, limit } = flags;
    const all_projects = flags["all-projects"] || undefined;
    const where = { cwd: io.cwd, all_projects, agent, status, since_ms: since?.(Date.now()) };
    const processes = await withWire(io, (wire) =>
      all ? everything(io, wire, where, limit) : live(wire, where, limit),
    );
    const names = processes.some(({ chat }) => chat) ? await namesHere(io) : new Map<string, string>();
    return print(io, flags, processes, (style) => {
      const rows = flags.tree ? asTree(processes, style) : processes.map((info) => ({ info, branch: "" }));
      return table(rows, columns(flags, processes, names, style), io.stdout, style);
    });
  },
});

interface Row {
  info: ListedProc;
  /** A background unit of the process, in a row of its own. */
  unit?: DaemonSnapshot;
  /** The lines of the tree before the PID. */
  branch: string;
}

/** Which processes are listed. */
type Selection = Omit<Payload<"list_all_procs">, "after" | "limit" | "newest">;

/** The names that the user has given to conversations of this project. */
async function namesHere({ cwd, env }: Io): Promise<ReadonlyMap<string, string>> {
  const [{ projectOf, userPaths }, { ConversationNames }] = await Promise.all([
    import("../../server/offline-commands.ts"),
    import("../chat/names.ts"),
  ]);
  return new ConversationNames(userPaths(env).dataDir, projectOf({ cwd, env }).id).load();
}

async function live(wire: Wire, where: Selection, limit: number | undefined): Promise<ListedProc[]> {
  const query = {
    ...where,
    waiting: true,
    limit: limit && Math.min(limit, MAX_PAGE),
    newest: limit !== undefined,
  };
  return (await wire.request("list_procs", query)).processes;
}

async function everything(io: Io, wire: Wire, where: Selection, most?: number): Promise<ListedProc[]> {
  const listed: ListedProc[] = [];
  const limit = most === undefined ? PAGE : Math.min(most, MAX_PAGE);
  for (;;) {
    const page = { after: listed.at(-1)?.pid, limit, newest: most !== undefined || undefined };
    const { processes, unreadable } = await wire.request("list_all_procs", { ...where, ...page });
    const problems = listed.length === 0 ? unreadable : [];
    for (const { path, message } of problems) io.stderr.write(`cannot read ${path}: ${message}\n`);
    listed.push(...processes);
    if (most !== undefined || processes.length < limit) return listed;
  }
}

function columns(
  o: { tree: boolean; "all-projects": boolean },
  processes: readonly ListedProc[],
  names: ReadonlyMap<string, string>,
  style: Style,
): Column<Row>[] {
  const pids = new Map(processes.map(({ uuid, pid }) => [uuid, String(pid)]));
  const forks = o.tree && processes.some(({ origin_uuid }) => origin_uuid !== null);
  const now = Date.now();
  const all: Column<Row>[] = [
    {
      title: "PID",
      value: ({ info, branch, unit }) => `${branch}${unit ? "unit" : info.pid}`,
      verbatim: true,
    },
    // The origin's PID if it is listed, else its UUID, whose record may be gone.
    {
      title: "FORK OF",
      value: ({ info: { origin_uuid: of } }) => (of === null ? "-" : (pids.get(of) ?? of)),
      when: forks,
    },
    {
      title: "PROJECT",
      value: ({ info }) => info.project,
      flexible: 16,
      leftOut: 8,
      when: o["all-projects"],
    },
    { title: "STATE", value: ({ info }) => stateOf(info) },
    { title: "AGENT", value: ({ info }) => info.agent, flexible: 8, leftOut: 4 },
    { title: "MODEL", value: ({ info }) => info.model || "-", leftOut: 1 },
    { title: "STEPS", value: ({ info }) => String(info.steps), right: true, leftOut: 3 },
    { title: "TOKENS", value: ({ info }) => formatCount(info.tokens_used), right: true, leftOut: 2 },
    { title: "COST", value: ({ info }) => formatCost(info.cost_usd), right: true, leftOut: 5 },
    { title: "ELAPSED", value: ({ info }) => formatElapsed(info.elapsed_ms), right: true, leftOut: 6 },
    { title: "DOING", value: ({ info }) => doingOf(info, pids, now, style), flexible: 12 },
    {
      title: "INTENT",
      value: ({ info }) => cut(names.get(info.uuid) ?? info.intent, INTENT_WIDTH),
      flexible: 12,
      leftOut: 7,
    },
  ];
  return all.map((column) => ({
    ...column,
    value: (row) =>
      row.unit && column.title !== "PID" ? (unitCells(row.unit, now)[column.title] ?? "") : column.value(row),
  }));
}

function unitCells(unit: DaemonSnapshot, now: number): Partial<Record<string, string>> {
  const elapsed = formatElapsed(now - Date.parse(unit.started_at));
  return { STATE: unit.status, AGENT: unit.kind, ELAPSED: elapsed, DOING: unit.id, INTENT: unit.description };
}

/** Shows the origin of a foreign or moved record with its state: such a run does not resume by itself. */
function stateOf({ status, foreign, moved_from }: ListedProc): string {
  const from = foreign ? ", foreign" : moved_from === undefined ? "" : ", moved";
  return `${status}${from}`;
}

/** What a live process does, what a suspended one waits for, and how an ended one ended. */
function doingOf(info: ListedProc, pids: ReadonlyMap<string, string>, now: number, style: Style): string {
  const { doing, suspended, exit_code, exit_reason } = info;
  if (suspended !== null) return `waits ${waitOf(suspended, pids)}`;
  if (exit_code !== null)
    return exit_code === 0 ? (exit_reason ?? "-") : `${exit_reason} (exit ${exit_code})`;
  return doing === null ? "-" : doingText(doing, now, style);
}

/** What a suspended run waits for; a child by its PID if that is listed. */
function waitOf(suspended: NonNullable<ProcInfo["suspended"]>, pids: ReadonlyMap<string, string>): string {
  const { wake } = suspended;
  if (wake.on === "at") return waitsFor(suspended);
  const pid = wake.on === "child" ? pids.get(wake.uuid) : undefined;
  return `for ${pid === undefined ? waitsFor(suspended) : `child ${pid}`}`;
}

/** Parents before children. A process whose parent is not listed is a root; so is one member of a parent cycle in damaged records. */
function asTree(processes: ListedProc[], style: Style): Row[] {
  const known = new Set(processes.map((info) => info.uuid));
  const children = Map.groupBy(processes, (info) =>
    info.parent_uuid !== null && known.has(info.parent_uuid) ? info.parent_uuid : null,
  );
  const { branch, lastBranch, trunk } = style.glyph;
  const rows: Row[] = [];
  const left = new Set(processes);
  const add = (parent: string | null, before: string): void => {
    const below = (children.get(parent) ?? []).filter((info) => left.delete(info));
    for (const [i, info] of below.entries()) {
      const last = i === below.length - 1;
      const own = parent === null ? "" : `${before}${last ? lastBranch : branch}`;
      const inner = parent === null ? "" : `${before}${last ? " ".repeat(trunk.length) : trunk}`;
      rows.push({ info, branch: own });
      // An agent in the background is a child in the tree already.
      const units = (info.units ?? []).filter((unit) => childOf(unit) === undefined);
      for (const unit of units) rows.push({ info, branch: `${inner}${lastBranch}`, unit });
      add(info.uuid, inner);
    }
  };
  add(null, "");
  for (const info of left) {
    left.delete(info);
    rows.push({ info, branch: "" });
    add(info.uuid, "");
  }
  return rows;
}

/** When it was, in Unix ms, from now: a duration before, or a local date. */
function past(value: string): ((nowMs: number) => number) | undefined {
  if (/^\d{4}-\d\d-\d\d/.test(value)) {
    const at = Date.parse(value.length === 10 ? `${value}T00:00` : value);
    return Number.isNaN(at) ? undefined : () => at;
  }
  const ago = milliseconds(value, MAX_AGE_MS);
  return ago === undefined ? undefined : (nowMs) => nowMs - ago;
}
