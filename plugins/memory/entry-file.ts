/** The files of a memory: the document of one scope, and its entries. */

import { statSync } from "node:fs";
import { type Scope, type Store, SyscallError } from "rnix/plugin";
import { isObject } from "../_lib/json.ts";

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
  // A paragraph's empty lines stay outside of it.
  const needsGap = !ITEM.test(lines[from] ?? "") && (lines[to] ?? "").trim() !== "";
  return joined([...lines.slice(0, from), ...itemLines(text), ...(needsGap ? [""] : []), ...lines.slice(to)]);
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

function joined(lines: readonly string[]): string {
  const text = lines.join("\n").replace(/\n+$/, "");
  return text === "" ? "" : `${text}\n`;
}

/** A document by its scope of the store and its name. */
export interface DocumentName {
  storage: Scope;
  doc: string;
}

interface Stored {
  text: string;
  version: string | null;
}

/** Attempts before a change gives up: each failed one was beaten by another writer. */
const MAX_ATTEMPTS = 60;
/**
 * An editor that read the document before a change and saves it after that writes over the change. So a change is looked
 * at again after this time; after a longer one where another program has just saved the file.
 */
const SETTLE_MS = 40;
const SETTLE_BESIDE_OTHERS_MS = 500;
const JUST_MS = 2_000;
/** An editor that moves the old file away before it writes the new one has done so after this time. */
const MISSING_MS = 1_000;

/** By path: the version that this process has written last, and when it last saw one of another program. */
const written = new Map<string, { version: string; othersAt: number }>();
const MAX_WRITTEN = 1_000;

/** The document; an empty text for a missing one. */
export async function readStored(store: Store, { storage, doc }: DocumentName): Promise<Stored> {
  return (await store.read(storage, doc)) ?? { text: "", version: null };
}

/**
 * Changes a document until the change is in it. `change` gets the current text and returns the new one, or null when
 * nothing is left to do. `holds`: whether a text contains the change.
 */
export async function changeStored(
  store: Store,
  at: DocumentName,
  change: (text: string) => string | null,
  { signal, holds }: { signal: AbortSignal; holds?: (text: string) => boolean },
): Promise<void> {
  const path = holds && (await store.path(at.storage, at.doc));
  for (let attempt = 1; attempt <= MAX_ATTEMPTS; attempt++) {
    signal.throwIfAborted();
    const now = await present(store, at, path);
    const text = change(now.text);
    if (text === null) return;
    const others = path === undefined ? 0 : othersAt(path, now.version);
    const version = await replaced(store, at, text, now.version);
    if (version === null) {
      await Bun.sleep(Math.min(20, attempt));
      continue;
    }
    if (!holds || path === undefined) return;
    remember(path, { version, othersAt: others });
    await Bun.sleep(Date.now() - others < JUST_MS ? SETTLE_BESIDE_OTHERS_MS : SETTLE_MS);
    const later = await readStored(store, at);
    if (later.version === version || holds(later.text)) return;
  }
  const message = `${at.doc} is being changed by other programs all the time. Try again.`;
  throw new SyscallError("UNAVAILABLE", message, { retryable: true });
}

/** The document; where it was a moment ago and is missing, it is waited for. */
async function present(store: Store, at: DocumentName, path: string | undefined): Promise<Stored> {
  const giveUp = performance.now() + MISSING_MS;
  for (;;) {
    const now = await readStored(store, at);
    const isMissing = now.version === null && path !== undefined && written.has(path);
    if (!isMissing || performance.now() >= giveUp) return now;
    await Bun.sleep(5);
  }
}

/** When another program last saved the file, as far as this process has seen it; Unix ms. */
function othersAt(path: string, version: string | null): number {
  const known = written.get(path);
  if (version === null || known?.version === version) return known?.othersAt ?? 0;
  return statSync(path, { throwIfNoEntry: false })?.mtimeMs ?? Date.now();
}

function remember(path: string, last: { version: string; othersAt: number }): void {
  written.delete(path);
  const oldest = written.keys().next();
  if (written.size >= MAX_WRITTEN && !oldest.done) written.delete(oldest.value);
  written.set(path, last);
}

/** Returns null when another writer was faster. */
async function replaced(
  store: Store,
  { storage, doc }: DocumentName,
  text: string,
  version: string | null,
): Promise<string | null> {
  try {
    return await store.replace(storage, doc, text, version);
  } catch (thrown) {
    // A service of a Worker gives errors of its own class.
    if (thrown instanceof SyscallError && thrown.code === "INVALID" && thrown.retryable === true) return null;
    throw thrown;
  }
}

/** Reads a JSON document of the plugin's own; `empty` for a missing or damaged one, which the next change replaces. */
export async function readJson<T extends object>(store: Store, at: DocumentName, empty: T): Promise<T> {
  return parsedOr((await readStored(store, at)).text, empty);
}

/** Changes a JSON document of the plugin's own. `change` returns null when nothing is left to do. */
export async function changeJson<T extends object>(
  store: Store,
  at: DocumentName,
  empty: T,
  change: (document: T) => T | null,
  signal: AbortSignal,
): Promise<void> {
  const edit = (text: string): string | null => {
    const changed = change(parsedOr(text, empty));
    return changed && `${JSON.stringify(changed, null, 1)}\n`;
  };
  await changeStored(store, at, edit, { signal });
}

function parsedOr<T extends object>(text: string, empty: T): T {
  if (text === "") return empty;
  try {
    const value: unknown = JSON.parse(text);
    if (!isObject(value)) return empty;
    const hasLists = Object.entries(empty).every(([key, list]) => {
      return !Array.isArray(list) || value[key] === undefined || Array.isArray(value[key]);
    });
    return hasLists ? { ...empty, ...value } : empty;
  } catch {
    return empty; // A person may have edited it.
  }
}
