/** A memory file: Markdown in which each list item and each paragraph is one entry. */

export interface Entry {
  /** The first digits of the hash of its text. */
  id: string;
  text: string;
  /** Its lines in the file, the last one excluded. */
  from: number;
  to: number;
}

interface EntryFile {
  lines: readonly string[];
  entries: readonly Entry[];
}

/** As in a name that a person types; the file of one scope holds some thousands. */
const ID_DIGITS = 10;

/**
 * Reads the entries. Headings, rules and comments at the margin are the person's own structure, and no entries. Code
 * between fences belongs to the entry that it stands in.
 */
export function parseEntries(text: string): EntryFile {
  const lines = text.replace(/^\uFEFF/, "").split(/\r\n|\r|\n/);
  const entries: Entry[] = [];
  for (let at = 0; at < lines.length; ) {
    const line = lines[at] ?? "";
    if (line.trim() === "" || isStructure(line)) at++;
    else if (isComment(lines, at)) at = endOfComment(lines, at);
    else {
      const entry = ITEM.test(line) ? readItem(lines, at) : readParagraph(lines, at);
      if (entry.text !== "") entries.push(entry);
      at = entry.to;
    }
  }
  return { lines, entries };
}

/** Adds an entry at the end. */
export function withEntry({ lines }: EntryFile, text: string): string {
  const end = lines.findLastIndex((line) => line.trim() !== "") + 1;
  const before = lines.slice(0, end);
  // After a paragraph, a list needs an empty line.
  const last = before.at(-1) ?? "";
  const gap = end > 0 && !ITEM.test(last) && !/^\s/.test(last) ? [""] : [];
  return joined([...before, ...gap, ...itemLines(text)]);
}

export function replaceEntry({ lines }: EntryFile, { from, to }: Entry, text: string): string {
  return joined([
    ...lines.slice(0, from),
    ...itemLines(text),
    ...trailing(lines, from, to),
    ...lines.slice(to),
  ]);
}

export function withoutEntry({ lines }: EntryFile, { from, to }: Entry): string {
  return joined([...lines.slice(0, from), ...lines.slice(to)]);
}

/** The text as it is stored: no spaces around it, "\n" as the line end, no terminal colours, no unpaired surrogates. */
export function normalized(text: string): string {
  return text
    .toWellFormed()
    .replace(/\r\n|[\r\u0085\u2028\u2029\f\v]/g, "\n")
    .replace(COLOURS, "")
    .replace(/^\uFEFF/gm, "")
    .replace(/^[^\S\n]+$/gm, "")
    .trim();
}

export function idOf(text: string): string {
  return hashOf(text).slice(0, ID_DIGITS);
}

export function hashOf(text: string): string {
  return Bun.CryptoHasher.hash("sha256", text, "hex").slice(0, 32);
}

/** SGR sequences, as logs have them. */
const COLOURS = new RegExp(`${String.fromCharCode(27)}\\[[0-9;:]*m`, "g");
const ITEM = /^(?:[-*+]|\d{1,9}[.)])(?:[ \t]+(?=\S)|[ \t]*$)/;
const FENCE = /^(?:`{3,}|~{3,})/;

function isStructure(line: string): boolean {
  return /^#{1,6}(?:\s|$)/.test(line) || /^(?:-{3,}|\*{3,}|_{3,}|=+)\s*$/.test(line);
}

/** A comment that never ends is a paragraph. */
function isComment(lines: readonly string[], at: number): boolean {
  return (lines[at] ?? "").startsWith("<!--") && endOfComment(lines, at) > at;
}

function endOfComment(lines: readonly string[], at: number): number {
  const end = lines.findIndex((line, i) => i >= at && line.includes("-->"));
  return end < 0 ? at : end + 1;
}

/** An item ends before the next line at the margin that follows an empty one, or begins something else. */
function readItem(lines: readonly string[], from: number): Entry {
  const width = (ITEM.exec(lines[from] ?? "")?.[0] ?? "").length;
  let to = from + 1;
  for (let at = to; at < lines.length; at++) {
    const line = lines[at] ?? "";
    if (line.trim() === "") continue;
    const isIndented = /^(?: {2}|\t)/.test(line);
    const isLazy = at === to && !startsSomething(line);
    if (!isIndented && !isLazy) break;
    to = at + 1;
  }
  const rest = lines.slice(from + 1, to);
  const indent = Math.min(width, ...rest.filter((line) => /^ +\S/.test(line)).map(indentOf));
  const text = [(lines[from] ?? "").slice(width), ...rest.map((line) => unindented(line, indent))];
  return entryOf(text, from, to);
}

/** A paragraph continues after the code that it introduces. */
function readParagraph(lines: readonly string[], from: number): Entry {
  let to = from;
  let fence: string | undefined;
  for (; to < lines.length; to++) {
    const line = lines[to] ?? "";
    const mark = FENCE.exec(line)?.[0];
    if (fence === undefined && mark !== undefined) {
      // Code that never ends is text.
      if (lines.some((later, i) => i > to && later.startsWith(mark))) fence = mark;
    } else if (fence !== undefined) {
      if (line.startsWith(fence)) fence = undefined;
    } else if (to > from && (line.trim() === "" || startsSomething(line))) break;
  }
  return entryOf(lines.slice(from, to), from, to);
}

function startsSomething(line: string): boolean {
  return ITEM.test(line) || isStructure(line) || line.startsWith("<!--");
}

function entryOf(lines: readonly string[], from: number, to: number): Entry {
  const text = normalized(lines.join("\n"));
  return { id: idOf(text), text, from, to };
}

function indentOf(line: string): number {
  return line.length - line.trimStart().length;
}

function unindented(line: string, indent: number): string {
  if (line.startsWith("\t")) return line.slice(1);
  return line.slice(Math.min(indent, indentOf(line)));
}

/** The first line of a text is never indented, so its others are indented by exactly the mark's width. */
function itemLines(text: string): string[] {
  const [first = "", ...rest] = text.split("\n");
  return [`- ${first}`, ...rest.map((line) => (line === "" ? "" : `  ${line}`))];
}

/** A paragraph's empty lines stay outside of it. */
function trailing(lines: readonly string[], from: number, to: number): string[] {
  return ITEM.test(lines[from] ?? "") ? [] : to < lines.length && (lines[to] ?? "").trim() !== "" ? [""] : [];
}

function joined(lines: readonly string[]): string {
  const text = lines.join("\n").replace(/\n+$/, "");
  return text === "" ? "" : `${text}\n`;
}
