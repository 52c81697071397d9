/** `rnix ps`: lists processes. */

import type { ProcInfo } from "../../kernel/types.ts";
import { defineCommand } from "../command.ts";
import { EXIT } from "../exit.ts";
import { bool, json } from "../flags.ts";
import { type Io, type Wire, withSession } from "../io.ts";
import { cut, formatCost, formatCount, formatElapsed } from "../output/format.ts";
import { type Style, styleOf } from "../output/style.ts";
import { waitsFor } from "../output/suspension.ts";
import { type Column, table } from "../output/table.ts";

const PAGE = 1000;
/**
 * Maximum columns of an intent, also in a pipe: an agent's intent for a child may have a megabyte. --json has all of
 * it.
 */
const INTENT_WIDTH = 1000;

export default defineCommand({
  about: "List processes",
  flags: {
    all: bool("include ended and suspended processes", { short: "a" }),
    tree: bool("show children below their parents, and the origin of each fork"),
    "all-projects": bool("list every project, with a PROJECT column"),
    json,
  },
  examples: [
    { line: "rnix ps", about: "what runs in this project" },
    { line: "rnix ps -a --json", about: "every recorded process, as an array of objects" },
  ],
  notes: [
    "A suspended run that resumes by itself is listed with what it waits for.",
    "A foreign run was recorded by another user's Rnix and is never resumed (rnix resume --adopt takes over its conversation). A moved run was recorded in another folder; rnix resume resumes it here.",
    "Without a daemon nothing runs, and ps does not start one. ps -a starts a daemon to read the records.",
  ],
  async run(io, flags) {
    const processes = await list(io, flags.all, flags["all-projects"]);
    if (flags.json) {
      io.stdout.write(`${JSON.stringify(processes, null, 2)}\n`);
      return EXIT.ok;
    }
    const style = styleOf(io, io.stdout);
    const rows = flags.tree ? asTree(processes, style) : processes.map((info) => ({ info, branch: "" }));
    io.stdout.write(table(rows, columns(flags, processes), io.stdout, style));
    return EXIT.ok;
  },
});

interface Row {
  info: ProcInfo;
  /** The lines of the tree before the PID. */
  branch: string;
}

async function list(io: Io, all: boolean, allProjects: boolean): Promise<ProcInfo[]> {
  const session = all ? undefined : await io.session({ onlyRunning: true });
  if (session === null) {
    io.stderr.write(
      "no daemon is running, so nothing runs; waiting runs resume when a daemon starts: rnix ps -a lists them\n",
    );
    return [];
  }
  const where = { cwd: io.cwd, all_projects: allProjects || undefined };
  if (session === undefined) {
    return withSession(io, {}, async (started) => everything(io, await started.connect(), where));
  }
  try {
    const wire = await session.connect();
    return (await wire.request("list_procs", { ...where, waiting: true })).processes;
  } finally {
    await session.close();
  }
}

async function everything(
  io: Io,
  wire: Wire,
  where: { cwd: string; all_projects: boolean | undefined },
): Promise<ProcInfo[]> {
  const listed: ProcInfo[] = [];
  for (;;) {
    const after = listed.at(-1)?.pid;
    const { processes, unreadable } = await wire.request("list_all_procs", { ...where, after, limit: PAGE });
    if (listed.length === 0) {
      for (const { path, message } of unreadable) io.stderr.write(`cannot read ${path}: ${message}\n`);
    }
    listed.push(...processes);
    if (processes.length < PAGE) return listed;
  }
}

function columns(
  o: { all: boolean; tree: boolean; "all-projects": boolean },
  processes: readonly ProcInfo[],
): Column<Row>[] {
  const pids = new Map(processes.map(({ uuid, pid }) => [uuid, String(pid)]));
  const forks = o.tree && processes.some(({ origin_uuid }) => origin_uuid !== null);
  const waits = processes.some(({ suspended }) => suspended !== null && suspended.wake.on !== "never");
  return [
    { title: "PID", value: ({ info, branch }) => `${branch}${info.pid}`, verbatim: true },
    ...(forks ? [{ title: "FORK OF", value: ({ info }: Row) => originOf(info, pids) }] : []),
    ...(o["all-projects"] ? [{ title: "PROJECT", value: ({ info }: Row) => info.project }] : []),
    { title: "STATE", value: ({ info }) => stateOf(info) },
    ...(o.all ? [{ title: "EXIT", value: ({ info }: Row) => exitOf(info) }] : []),
    ...(waits ? [{ title: "WAITS FOR", value: ({ info }: Row) => waitOf(info, pids) }] : []),
    { title: "AGENT", value: ({ info }) => info.agent },
    { title: "MODEL", value: ({ info }) => info.model || "-" },
    { title: "STEPS", value: ({ info }) => String(info.steps), right: true },
    { title: "TOKENS", value: ({ info }) => formatCount(info.tokens_used), right: true },
    { title: "COST", value: ({ info }) => formatCost(info.cost_usd), right: true },
    { title: "ELAPSED", value: ({ info }) => formatElapsed(info.elapsed_ms), right: true },
    { title: "INTENT", value: ({ info }) => cut(info.intent, INTENT_WIDTH), flexible: true },
  ];
}

/** The parent's PID if it is listed, else its UUID, whose record may be gone. */
function originOf({ origin_uuid }: ProcInfo, pids: ReadonlyMap<string, string>): string {
  return origin_uuid === null ? "-" : (pids.get(origin_uuid) ?? origin_uuid);
}

/** Shows the origin of a foreign or moved record with its state: such a run does not resume by itself. */
function stateOf({ is_paused, state, foreign, moved_from }: ProcInfo): string {
  const from = foreign ? ", foreign" : moved_from === undefined ? "" : ", moved";
  return `${is_paused ? "paused" : state}${from}`;
}

function exitOf(info: ProcInfo): string {
  return info.exit_code === null ? "-" : `${info.exit_code} ${info.exit_reason ?? ""}`;
}

/** What a suspended run waits for; a child by its PID if that is listed. */
function waitOf({ suspended }: ProcInfo, pids: ReadonlyMap<string, string>): string {
  if (suspended === null) return "-";
  const { wake } = suspended;
  const pid = wake.on === "child" ? pids.get(wake.uuid) : undefined;
  return pid === undefined ? waitsFor(suspended) : `child ${pid}`;
}

/** Parents before children. A process whose parent is not listed is a root; so is one member of a parent cycle in damaged records. */
function asTree(processes: ProcInfo[], style: Style): Row[] {
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
      rows.push({ info, branch: own });
      add(info.uuid, parent === null ? "" : `${before}${last ? " ".repeat(trunk.length) : trunk}`);
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
