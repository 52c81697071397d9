/** A tool call as a block: its line with status and time, and the lines of its output or result below. */

import type { TerminalSize } from "../../io.ts";
import { callText } from "../../output/call-text.ts";
import { formatElapsed, formatSeconds, plural } from "../../output/format.ts";
import { runningMs } from "../../transcript/run-calls.ts";
import type { CallBlock } from "../../transcript/transcript.ts";
import { type BlockSize, cutTo, type Look, plainLines, spinnerAt, wrapTo } from "../look.ts";
import { diffLines } from "./diff.ts";
import { type Outcome, outcomeOf, TAIL_LINES } from "./outcome.ts";

/** Lines of a long command that are shown unless all are asked for. */
const ARGUMENT_LINES = 6;

/** A call that has ended. */
export function callLines(call: CallBlock, { columns, full = false }: BlockSize, look: Look): string[] {
  const outcome = outcomeOf(call);
  const isFailed = outcome.failure !== null;
  const status = [
    ...(outcome.failure === null ? [] : [look.red(outcome.failure)]),
    ...outcome.facts.map((fact) => factText(fact, look)),
    ...(call.duration_ms === null || call.state === "waiting" || (isFailed && call.duration_ms === 0)
      ? []
      : [look.dim(formatElapsed(call.duration_ms))]),
  ];
  const mark = isFailed
    ? look.red(look.mark.failed)
    : call.state === "waiting"
      ? look.mark.waiting
      : look.green(look.mark.done);
  const most = full ? Number.POSITIVE_INFINITY : ARGUMENT_LINES;
  return [
    ...titleLines(call, { mark, status, columns, most }, look),
    ...bodyLines(outcome, { columns, full }, look),
  ];
}

/** Whether Ctrl+O has more of it to show. */
export function hasMore(call: CallBlock): boolean {
  const { lines, diff, most } = outcomeOf(call);
  const argument = callText(call.name, call.input).argument.split("\n").length;
  return Math.max(lines.length, diff?.length ?? 0) > most || argument > ARGUMENT_LINES;
}

/** A call that runs, in at most `rows` lines: its line, and the end of its output. */
export function runningLines(
  call: CallBlock,
  { columns, full = false, rows, now }: BlockSize & { rows: number; now: number },
  look: Look,
): string[] {
  const elapsed = runningMs(call, now);
  const status = elapsed < 1000 ? [] : [look.dim(formatSeconds(elapsed))];
  const mark = call.askedMs === null ? look.cyan(spinnerAt(look, now)) : look.yellow(look.mark.waiting);
  const title = titleLines(call, { mark, status, columns, most: Math.min(ARGUMENT_LINES, rows) }, look);
  const room = Math.min(full ? rows : TAIL_LINES + 1, rows - title.length);
  return [...title, ...tailLines(call, { columns, rows: room }, look)];
}

function tailLines({ tail, lines }: CallBlock, { columns, rows }: TerminalSize, look: Look): string[] {
  if (tail === "" || rows < 1) return [];
  const all = plainLines(tail);
  const most =
    Math.min(rows, TAIL_LINES + 1) === rows && lines > rows
      ? rows - 1
      : Math.min(rows, Math.max(rows - 1, 1));
  const shown = all.slice(-Math.max(1, most));
  const hidden = Math.max(lines, all.length) - shown.length;
  const above = hidden > 0 && rows > 1 ? [`${look.mark.ellipsis} ${plural(hidden, "line")} above`] : [];
  return [
    ...above.map((text) => look.dim(text)),
    ...shown.map((line) => look.dim(cutTo(line, columns - 4, look))),
  ].map((line) => barred(line, look));
}

/** The name and the argument, and the status behind its last line. */
function titleLines(
  { name, input }: CallBlock,
  o: { mark: string; status: readonly string[]; columns: number; most: number },
  look: Look,
): string[] {
  const { name: shown, argument } = callText(name, input, look.cwd);
  const status = o.status.map((text) => `${look.dim(look.glyph.dot)}${text}`).join("");
  const title = cutTo(shown, o.columns - 2, look);
  const head = `${o.mark} ${look.bold(title)}`;
  const first = 3 + Bun.stringWidth(title);
  // Below a long name, the argument begins further left.
  const indent = first > o.columns / 4 ? 4 : first;
  const lines = argumentLines(argument, { first: o.columns - first, width: o.columns - indent });
  if (lines.length === 0) return [`${head}${status}`];
  // Where the line has no room for the status, it has a line of its own.
  const width = Bun.stringWidth(status);
  const isOwnLine = o.columns - indent - width < MIN_ARGUMENT;
  const fitted = fitStatus(lines, { ...o, indent, first, status: isOwnLine ? 0 : width }, look);
  const own = o.status.join(look.dim(look.glyph.dot));
  if (isOwnLine) return [...placed(fitted, { head, indent }), `    ${cutTo(own, o.columns - 4, look)}`];
  const last = fitted.pop() ?? "";
  return placed([...fitted, last === "" ? own : last + status], { head, indent });
}

/** Columns of the argument's last line that the status leaves at least. */
const MIN_ARGUMENT = 12;

function placed(lines: readonly string[], { head, indent }: { head: string; indent: number }): string[] {
  return lines.map((line, i) => (i === 0 ? `${head} ${line}` : `${" ".repeat(indent)}${line}`));
}

/** The argument wrapped: its first line stands behind the name, the others below it. */
function argumentLines(argument: string, { first, width }: { first: number; width: number }): string[] {
  if (argument === "") return [];
  const [line = "", ...others] = plainLines(argument);
  const [head = ""] = wrapTo(line, Math.max(1, first));
  const rest = line.slice(head.length).trimStart();
  return [
    head,
    ...(rest === "" ? [] : wrapTo(rest, width)),
    ...others.flatMap((other) => wrapTo(other, width)),
  ];
}

/** At most `most` lines, of which the last leaves room for the status. */
function fitStatus(
  lines: string[],
  o: { columns: number; most: number; indent: number; first: number; status: number },
  look: Look,
): string[] {
  const room = (at: number): number => o.columns - (at === 0 ? o.first : o.indent) - o.status;
  const last = lines.length - 1;
  const end = lines[last] ?? "";
  const isLong = Bun.stringWidth(end) > room(last);
  // Its last words go to a line of their own, with the status.
  const wrapped = isLong && lines.length < o.most ? [...lines.slice(0, -1), ...lastWords(end)] : lines;
  const shown = wrapped.slice(0, o.most);
  const hidden = wrapped.length - shown.length;
  const at = shown.length - 1;
  const count = hidden > 0 ? ` ${look.mark.ellipsis} ${plural(hidden, "more line")}` : "";
  const more = count.length + MIN_ARGUMENT > room(at) ? "" : count;
  const cut = cutTo(shown[at] ?? "", Math.max(4, room(at) - more.length), look);
  return [...shown.slice(0, -1), `${cut}${look.dim(more)}`];
}

/** A line in two, of which the second is short. */
function lastWords(line: string): [string, string] {
  const at = line.lastIndexOf(" ");
  // One long word, such as an address.
  if (at < 1 || line.length - at > LAST_WORD) return [line, ""];
  return [line.slice(0, at).trimEnd(), line.slice(at + 1)];
}

const LAST_WORD = 16;

function bodyLines(outcome: Outcome, { columns, full }: BlockSize, look: Look): string[] {
  const { diff, lines, keep, isProse } = outcome;
  const most = full ? Number.POSITIVE_INFINITY : outcome.most;
  if (diff !== null) {
    const shown = diffLines(diff.slice(0, most), columns - 4, look);
    return [...shown, ...hiddenText(diff.length - shown.length, "first", look)].map((line) => `    ${line}`);
  }
  if (most === 0 || lines.length === 0) return [];
  const whole = full || isProse ? lines.flatMap((line) => wrapTo(line, columns - 4)) : lines;
  // One hidden line takes as much room as the note on it.
  const isWhole = whole.length <= most + 1;
  const shown = isWhole ? whole : keep === "first" ? whole.slice(0, most) : whole.slice(-most);
  const paint = outcome.failure === null ? look.dim : (line: string) => line;
  const body = shown.map((line) => paint(cutTo(line, columns - 4, look)));
  const hidden = hiddenText(whole.length - shown.length, keep, look);
  return (keep === "first" ? [...body, ...hidden] : [...hidden, ...body]).map((line) => barred(line, look));
}

function hiddenText(count: number, keep: Outcome["keep"], look: Look): string[] {
  if (count <= 0) return [];
  const text = keep === "first" ? plural(count, "more line") : `${plural(count, "line")} above`;
  return [look.dim(`${look.mark.ellipsis} ${text}`)];
}

function barred(line: string, look: Look): string {
  return `  ${look.dim(look.mark.bar)} ${line}`;
}

function factText(fact: string, look: Look): string {
  const counts = /^(\+\d+) (-\d+)$/.exec(fact);
  if (counts?.[1] === undefined || counts[2] === undefined) return look.dim(fact);
  return `${look.green(counts[1])} ${look.red(counts[2])}`;
}
