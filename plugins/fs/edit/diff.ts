/** Formats the changes of an edit as a unified diff. */

import { cutText } from "../display.ts";

/** A range of bytes in a file and the text that replaces it. */
export interface Change {
  start: number;
  end: number;
  text: Buffer;
}

const CONTEXT_LINES = 3;
const MAX_HUNKS = 3;
const MAX_LINES = 30;
const LINE_CHARS = 300;
const NEWLINE = 10;

/** The changes as a unified diff, shortened to what shows that they are right. */
export function hunks(bytes: Buffer, changes: readonly Change[]): string {
  let shift = 0;
  let line = 1;
  let counted = 0;
  const shown: string[] = [];
  for (const change of changes.slice(0, MAX_HUNKS)) {
    line += countLines(bytes, counted, change.start);
    counted = change.start;
    shown.push(hunk(bytes, change, line, shift));
    shift += countLines(change.text, 0, change.text.length) - countLines(bytes, change.start, change.end);
  }
  if (changes.length > MAX_HUNKS) shown.push(`[… and ${changes.length - MAX_HUNKS} more changes]`);
  return shown.join("\n");
}

export function lineAt(bytes: Buffer, position: number): number {
  return 1 + countLines(bytes, 0, position);
}

function hunk(bytes: Buffer, change: Change, line: number, shift: number): string {
  const start = lineStart(bytes, change.start);
  const end = lineEnd(bytes, change.end);
  const removed = linesOf(bytes.subarray(start, end));
  const added = linesOf(
    Buffer.concat([bytes.subarray(start, change.start), change.text, bytes.subarray(change.end, end)]),
  );
  // The first and last lines of a change may be unchanged.
  const head = sameAtStart(removed, added);
  const tail = sameAtStart(removed.slice(head).toReversed(), added.slice(head).toReversed());
  const before = [...linesBefore(bytes, start), ...removed.slice(0, head)].slice(-CONTEXT_LINES);
  const after = [...removed.slice(removed.length - tail), ...linesAfter(bytes, end)].slice(0, CONTEXT_LINES);
  const gone = removed.slice(head, removed.length - tail);
  const come = added.slice(head, added.length - tail);
  const around = before.length + after.length;
  const from = line + head - before.length;
  return [
    `@@ -${from},${gone.length + around} +${from + shift},${come.length + around} @@`,
    ...marked(" ", before),
    ...marked("-", gone),
    ...marked("+", come),
    ...marked(" ", after),
  ].join("\n");
}

function sameAtStart(a: readonly string[], b: readonly string[]): number {
  let count = 0;
  while (count < a.length && count < b.length && a[count] === b[count]) count++;
  return count;
}

function marked(mark: string, lines: readonly string[]): string[] {
  const shown = lines
    .slice(0, MAX_LINES)
    .map((line) => `${mark}${line.length > LINE_CHARS ? `${cutText(line, LINE_CHARS)}…` : line}`);
  if (lines.length > MAX_LINES) shown.push(`${mark}[… ${lines.length - MAX_LINES} more lines]`);
  return shown;
}

function linesBefore(bytes: Buffer, end: number): string[] {
  let start = end;
  for (let count = 0; count < CONTEXT_LINES && start > 0; count++) start = lineStart(bytes, start - 1);
  return start === end ? [] : linesOf(bytes.subarray(start, end - 1));
}

function linesAfter(bytes: Buffer, start: number): string[] {
  let end = start;
  for (let count = 0; count < CONTEXT_LINES && end < bytes.length - 1; count++) end = lineEnd(bytes, end + 1);
  return end === start ? [] : linesOf(bytes.subarray(start + 1, end));
}

function linesOf(bytes: Buffer): string[] {
  return bytes
    .toString("utf8")
    .split("\n")
    .map((line) => line.replace(/\r$/, ""));
}

function lineStart(bytes: Buffer, position: number): number {
  return position === 0 ? 0 : bytes.lastIndexOf(NEWLINE, position - 1) + 1;
}

function lineEnd(bytes: Buffer, position: number): number {
  const end = bytes.indexOf(NEWLINE, position);
  return end < 0 ? bytes.length : end;
}

function countLines(bytes: Buffer, from: number, to: number): number {
  let count = 0;
  for (let index = from; index < to; index++) if (bytes[index] === NEWLINE) count++;
  return count;
}
