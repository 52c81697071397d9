/** The live region: what arrives, the running calls with their sub-agents, the status line and the footer. */

import { plural } from "../../output/format.ts";
import type { RunState } from "../../transcript/run-state.ts";
import type { CallBlock, ChildRun } from "../../transcript/transcript.ts";
import { cutTo, type Look } from "../look.ts";
import { blockLines, thoughtText } from "./block.ts";
import { runningLines } from "./call.ts";
import { checklistLines } from "./checklist.ts";
import { childLine, childTree } from "./child.ts";
import { footerLine, statusLines } from "./status.ts";

interface LiveSize {
  columns: number;
  /** Maximum lines. */
  rows: number;
  now: number;
  full: boolean;
  /** The run waits for a message, and the input line below shows that. */
  isReady?: boolean;
  hints: readonly string[];
  /** The folder and the branch, in the footer. */
  place?: string;
  /** What stands above the live region ends without an empty line. */
  isBelowText: boolean;
  /** The text of the model that arrives: its newest lines, at most `rows`. */
  answer(rows: number): string[];
}

/** Lines of reasoning that are shown while it arrives. */
const THOUGHT_LINES = 8;
/** Rows with room for a running call above the status line. */
const MIN_ROWS = 4;
/** Maximum lines of the lists that plugins show. */
const MAX_LIST = 12;
/** Columns of which nothing is expected. */
const MIN_COLUMNS = 20;

export function liveLines(state: RunState, size: LiveSize, look: Look): string[] {
  const columns = Math.max(MIN_COLUMNS, size.columns);
  const { rows, now } = size;
  const status = size.isReady
    ? []
    : statusLines(state, { ...size, columns, showsCalls: rows >= MIN_ROWS }, look);
  const footer = footerLine(state, { columns, now, place: size.place }, look);
  const bottom = (footer === "" ? status : [...status, footer]).slice(0, Math.max(1, rows));
  const room = rows - bottom.length;
  if (room < 2) return bottom;
  // An empty line above the status, where there is something above it.
  const above = aboveStatus(state, { ...size, columns, rows: room - (size.isBelowText ? 2 : 1) }, look);
  if (above.length === 0) return ["", ...bottom];
  return [...(size.isBelowText ? [""] : []), ...above, "", ...bottom];
}

function aboveStatus(state: RunState, size: LiveSize, look: Look): string[] {
  const { columns } = size;
  const lists = checklistsOf(state, { columns, rows: Math.min(MAX_LIST, Math.floor(size.rows / 2)) }, look);
  const gap = lists.length > 0 ? [""] : [];
  const left = size.rows - lists.length - gap.length;
  const above = workAndStream(state, { ...size, rows: left }, look);
  return above.length === 0 ? lists : [...above, ...gap, ...lists];
}

/** The lists that plugins show stay directly above the status. */
function checklistsOf(state: RunState, o: { columns: number; rows: number }, look: Look): string[] {
  const lists = [...state.checklists.values()];
  const rows = Math.floor(o.rows / Math.max(1, lists.length));
  return lists.flatMap((items) => checklistLines(items, { ...o, rows }, look));
}

function workAndStream(state: RunState, size: LiveSize, look: Look): string[] {
  const { columns } = size;
  const reads =
    state.reads.length > 0 ? blockLines({ kind: "reads", calls: state.reads }, { columns }, look) : [];
  const work = [...reads, ...workLines(state, { ...size, rows: size.rows - reads.length }, look)].slice(
    0,
    size.rows,
  );
  const left = size.rows - work.length;
  const stream = streamLines(state, { ...size, rows: left }, look);
  const gap = stream.length > 0 && work.length > 0 && stream.length + work.length < size.rows ? [""] : [];
  return [...stream, ...gap, ...work];
}

function streamLines(state: RunState, { columns, rows, answer, full }: LiveSize, look: Look): string[] {
  if (rows < 1) return [];
  if (state.thought === null) return answer(rows);
  const most = full ? rows - 1 : Math.min(THOUGHT_LINES, rows - 1);
  // Only its end is wrapped again in each frame.
  const end = state.thought.text.slice(-(most + 1) * columns);
  const lines = most < 1 ? [] : thoughtText(end, columns).slice(-most);
  return [look.dim(`${look.mark.thought} thinking`), ...lines.map((line) => look.dim(look.italic(line)))];
}

/** The running calls, each with the sub-agents it waits for; then the sub-agents that no call waits for. */
function workLines(state: RunState, size: LiveSize, look: Look): string[] {
  const calls = [...state.calls.values()];
  const all = [...state.children.values()];
  const isCalled = new Set(calls.map(({ id }) => id));
  const others = all.filter(
    (child) => !isCalled.has(child.call_id ?? "") && !state.children.has(child.parent_uuid ?? ""),
  );
  const otherLines = (rows: number): string[] => childTree(all, others, { ...size, rows }, look);
  const forOthers =
    others.length === 0 ? 0 : Math.min(otherLines(size.rows).length, Math.ceil(size.rows / 2));
  const lines: string[] = [];
  const shown = calls.slice(-Math.max(1, size.rows - forOthers));
  const hidden = calls.length - shown.length;
  if (hidden > 0) {
    shown.shift();
    lines.push(
      look.dim(
        cutTo(`  ${look.mark.ellipsis} ${plural(hidden + 1, "more call")} running`, size.columns, look),
      ),
    );
  }
  for (const [index, call] of shown.entries()) {
    const room = size.rows - forOthers - lines.length;
    const rows = Math.max(1, room - (shown.length - index - 1));
    // The rows are shared: a call takes no more than its part, unless the others need less.
    const share = Math.max(1, Math.min(rows, Math.ceil(room / (shown.length - index))));
    lines.push(...callAndAgents(call, all, { ...size, rows: share }, look));
  }
  return [...lines, ...otherLines(size.rows - lines.length)].slice(0, Math.max(0, size.rows));
}

function callAndAgents(call: CallBlock, all: readonly ChildRun[], size: LiveSize, look: Look): string[] {
  const { columns, rows, now, full } = size;
  const roots = all.filter((child) => child.call_id === call.id);
  // The line of the agent takes the place of the call's: both name the task.
  if (call.name === "Agent" && roots.length > 0)
    return roots.flatMap((child) => agentLines(child, all, size, look)).slice(0, rows);
  const title = runningLines(call, { columns, now, full, rows: roots.length > 0 ? 1 : rows }, look);
  return [...title, ...childTree(all, roots, { columns, now, rows: rows - title.length }, look)].slice(
    0,
    rows,
  );
}

function agentLines(child: ChildRun, all: readonly ChildRun[], size: LiveSize, look: Look): string[] {
  const below = all.filter((one) => one.parent_uuid === child.uuid);
  return [childLine(child, size, look), ...childTree(all, below, { ...size, rows: size.rows - 1 }, look)];
}
