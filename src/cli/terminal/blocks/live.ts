/** The live region: what arrives, the running calls with their sub-agents, the status line and the footer. */

import type { ChecklistItem } from "../../../plugin/index.ts";
import type { TerminalSize } from "../../io.ts";
import { callLine } from "../../output/call-text.ts";
import {
  formatCost,
  formatCount,
  formatElapsed,
  formatSeconds,
  oneLine,
  plural,
  printable,
} from "../../output/format.ts";
import { runningMs } from "../../transcript/run-calls.ts";
import type { RunState } from "../../transcript/run-state.ts";
import type { CallBlock, ChildRun } from "../../transcript/transcript.ts";
import { cutTo, type Look, plainLines, spinnerAt, wrapTo } from "../look.ts";
import { blockLines, thoughtText } from "./block.ts";
import { runningLines } from "./call.ts";
import { childLine, childTree } from "./child.ts";

interface LiveSize {
  columns: number;
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

/** What arrives, the work, and directly above the status the lists that plugins show. */
function aboveStatus(state: RunState, size: LiveSize, look: Look): string[] {
  const { columns } = size;
  const checklists = [...state.checklists.values()];
  const share = Math.floor(Math.min(MAX_LIST, Math.floor(size.rows / 2)) / Math.max(1, checklists.length));
  const lists = checklists.flatMap((items) => checklistLines(items, { columns, rows: share }, look));
  const gapped = lists.length > 0 ? ["", ...lists] : [];
  const rows = size.rows - gapped.length;
  const reads =
    state.reads.length > 0 ? blockLines({ kind: "reads", calls: state.reads }, { columns }, look) : [];
  const running = workLines(state, { ...size, rows: rows - reads.length }, look);
  const work = [...reads, ...running].slice(0, rows);
  const stream = streamLines(state, { ...size, rows: rows - work.length }, look);
  const gap = stream.length > 0 && work.length > 0 && stream.length + work.length < rows ? [""] : [];
  const above = [...stream, ...gap, ...work];
  return above.length === 0 ? lists : [...above, ...gapped];
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

/** At most `rows` lines. Of a long list, finished items are left out first, then the last ones. */
export function checklistLines(
  items: readonly ChecklistItem[],
  { columns, rows }: TerminalSize,
  look: Look,
): string[] {
  const open = items.filter(isOpen);
  if (open.length === 0 || rows < 1) return [];
  if (items.length <= rows) return items.map((item) => itemLine(item, columns, look));
  const closed = items.length - open.length;
  const head = closed > 0 && rows > 1 ? [look.dim(`  ${look.mark.done} ${closed} done`)] : [];
  const room = rows - head.length;
  const active = [
    ...open.filter(({ state }) => state === "active"),
    ...open.filter(({ state }) => state === "open"),
  ];
  const kept = new Set(active.slice(0, open.length > room && room > 1 ? room - 1 : room));
  const hidden = open.length - kept.size;
  const more = hidden > 0 && room > 1 ? [look.dim(`  ${look.mark.ellipsis} ${hidden} more`)] : [];
  const shown = open.filter((item) => kept.has(item));
  return [...head, ...shown.map((item) => itemLine(item, columns, look)), ...more];
}

function isOpen({ state }: ChecklistItem): boolean {
  return state === "open" || state === "active";
}

function itemLine({ text, state, note }: ChecklistItem, columns: number, look: Look): string {
  const words = printable(text);
  const added = note === undefined ? "" : look.dim(`  ${printable(note)}`);
  const line = {
    open: `${look.mark.waiting} ${words}`,
    active: `${look.cyan(look.mark.message)} ${look.bold(words)}`,
    done: look.dim(`${look.mark.done} ${words}`),
    dropped: look.dim(`${look.mark.failed} ${words}`),
  }[state];
  return cutTo(`  ${line}${added}`, columns, look);
}

interface Place {
  columns: number;
  now: number;
  /** Keys that the user may not know, on the right if there is room. */
  hints: readonly string[];
  /** The running calls have lines of their own. */
  showsCalls: boolean;
}

/** What the run does now, with a spinner and the time it has taken so far. */
function statusLines(state: RunState, place: Place, look: Look): string[] {
  if (state.retry !== null) return retryLines(state.retry, place, look);
  const { columns, now } = place;
  const { text, sinceMs, untilMs, isStill } = doing(state, place, look);
  const clock = [
    ...(now - sinceMs < 1000 ? [] : [formatSeconds(now - sinceMs)]),
    ...(untilMs === null || untilMs <= now ? [] : [`${formatSeconds(untilMs - now + 999)} left`]),
  ].map((part) => `${look.glyph.dot}${part}`);
  const room = columns - 2 - Bun.stringWidth(clock.join(""));
  const mark = isStill ? look.yellow(look.mark.waiting) : look.cyan(spinnerAt(look, now));
  const shown = cutTo(oneLine(text, room), room, look);
  const left = `${mark} ${isStill ? look.yellow(shown) : shown}${look.dim(clock.join(""))}`;
  return [left + hint(place, Bun.stringWidth(left), look)];
}

function retryLines(retry: NonNullable<RunState["retry"]>, { columns, now }: Place, look: Look): string[] {
  const parts = [
    `attempt ${retry.attempt} failed`,
    now < retry.untilMs ? `next in ${formatSeconds(retry.untilMs - now + 999)}` : "asking again",
    ...(retry.endMs > now + 1000 ? [`gives up in ${formatElapsed(retry.endMs - now)}`] : []),
  ];
  const [reason = ""] = plainLines(retry.message);
  const why = wrapTo(reason, columns - 2).slice(0, 2);
  return [
    `${look.yellow(spinnerAt(look, now))} ${look.yellow(cutTo(parts.join(look.glyph.dot), columns - 2, look))}`,
    ...why.map((line) => look.dim(`  ${line}`)),
  ];
}

interface Doing {
  text: string;
  sinceMs: number;
  untilMs: number | null;
  /** It waits for a person: nothing moves. */
  isStill: boolean;
}

function doing(state: RunState, { now, showsCalls }: Place, look: Look): Doing {
  const { activity, thought, isAnswering, calls } = state;
  const since = activity?.since_ms ?? now;
  if (thought !== null) return moving("thinking", thought.sinceMs);
  if (isAnswering) return moving("answering", since);
  const [first] = calls.values();
  // A program that is the model calls tools while it answers.
  const isWork = activity === null || activity.kind === "tool" || activity.kind === "model";
  if (first !== undefined && showsCalls && isWork) {
    const ran = [...calls.values()].map((call) => runningMs(call, now));
    return moving(callsText([...calls.values()]), now - Math.max(...ran));
  }
  if (activity === null) {
    if (first === undefined)
      return moving(state.head === null ? "starting" : "waiting for the model", state.openedMs);
    return moving(
      calls.size === 1 ? callLine(first.name, first.input, 200, look.cwd) : `${calls.size} calls`,
      now - runningMs(first, now),
    );
  }
  const isStill = ["paused", "input", "ask"].includes(activity.kind);
  return { text: activity.text, sinceMs: since, untilMs: activity.until_ms, isStill };
}

function callsText(calls: readonly CallBlock[]): string {
  const [first] = calls;
  if (calls.length === 1 && first !== undefined) {
    return first.name === "Agent" ? "an agent works" : `running ${first.name}`;
  }
  const agents = calls.filter(({ name }) => name === "Agent").length;
  return agents === calls.length ? `${agents} agents work` : `running ${calls.length} calls`;
}

function moving(text: string, sinceMs: number): Doing {
  return { text, sinceMs, untilMs: null, isStill: false };
}

/** As many of the hints as have room, right-aligned. */
function hint({ columns, hints }: Place, used: number, look: Look): string {
  for (let count = hints.length; count > 0; count--) {
    const text = hints.slice(0, count).join(look.glyph.dot);
    const gap = columns - used - Bun.stringWidth(text);
    if (gap >= 3) return " ".repeat(gap) + look.dim(text);
  }
  return "";
}

/** Agent, model and use on one line; what matters least is left out where the line is too long. */
function footerLine(
  state: RunState,
  { columns, now, place = "" }: Pick<LiveSize, "columns" | "now" | "place">,
  look: Look,
): string {
  const { head, step, tokens, costUsd, contextTokens, contextWindow, units } = state;
  if (head === null) return "";
  const share =
    contextTokens === null
      ? ""
      : contextWindow === null
        ? `${formatCount(contextTokens)} in context`
        : `${percent(contextTokens / contextWindow)} of ${formatCount(contextWindow)}`;
  // The larger the number, the sooner the part is left out.
  const parts: [number, string][] = [
    [6, place],
    [5, head.agent],
    [2, head.model],
    [1, units.size === 0 ? "" : plural(units.size, "unit")],
    [4, step === 0 ? "" : `step ${step}`],
    [0, tokens === 0 ? "" : `${formatCount(tokens)} tokens`],
    [1, costUsd === null ? "" : formatCost(costUsd)],
    [1, share],
    [3, formatSeconds(state.elapsedMs(now))],
  ];
  const shown = parts.filter(([, text]) => text !== "");
  const text = (): string => shown.map(([, part]) => oneLine(part, 40)).join(look.glyph.dot);
  while (shown.length > 1 && Bun.stringWidth(text()) > columns - 2) {
    const least = Math.max(...shown.map(([rank]) => rank));
    shown.splice(
      shown.findIndex(([rank]) => rank === least),
      1,
    );
  }
  return look.dim(`  ${cutTo(text(), columns - 2, look)}`);
}

function percent(share: number): string {
  return share > 0 && share < 0.01 ? "<1%" : `${Math.round(share * 100)}%`;
}
