/** What a person has typed into the conversations of a project: a file of the user's data folder, mode 0600. */

import { closeSync, constants, fstatSync, mkdirSync, openSync, renameSync, writeSync } from "node:fs";
import { dirname } from "node:path";
import { errnoOf } from "../../lib/error-detail.ts";
import { readRegularSync } from "../../lib/regular-file.ts";
import { oneLine } from "../output/format.ts";
import type { Suggestions } from "./completion.ts";

const MAX_ENTRIES = 200;
/** Longer texts, such as pasted files, are sent and not kept. */
const MAX_ENTRY_CHARS = 20_000;
/** A file beyond this size is written again with its newest entries. */
const MAX_BYTES = 512 * 1024;
const MAX_READ_BYTES = 16 * 1024 ** 2;

const { O_APPEND, O_CREAT, O_NOFOLLOW, O_TRUNC, O_WRONLY } = constants;

/** One JSON string per line, the oldest first. Several conversations may append to it. */
export class History {
  readonly #path: string;

  constructor(path: string) {
    this.#path = path;
  }

  /** The newest entries, the oldest of them first. A damaged line is left out. */
  load(): string[] {
    return entriesIn(this.#read()).slice(-MAX_ENTRIES);
  }

  /** Appends what was typed. Returns false when it could not be kept; the conversation continues without it. */
  add(text: string): boolean {
    const entry = text.trim();
    if (entry === "" || entry.length > MAX_ENTRY_CHARS) return true;
    try {
      mkdirSync(dirname(this.#path), { recursive: true, mode: 0o700 });
      const size = writeTo(this.#path, O_APPEND, `${JSON.stringify(entry)}\n`);
      if (size > MAX_BYTES) this.#shorten();
      return true;
    } catch (error) {
      if (errnoOf(error) === undefined) throw error;
      return false;
    }
  }

  /** Keeps half of what fits, so that this is rare. */
  #shorten(): void {
    const kept: string[] = [];
    let bytes = 0;
    for (const entry of this.load().toReversed()) {
      bytes += Buffer.byteLength(entry);
      if (bytes > MAX_BYTES / 2) break;
      kept.unshift(`${JSON.stringify(entry)}\n`);
    }
    const temporary = `${this.#path}.${process.pid}.tmp`;
    writeTo(temporary, O_TRUNC, kept.join(""));
    renameSync(temporary, this.#path);
  }

  #read(): string {
    try {
      return readRegularSync(this.#path, MAX_READ_BYTES).toString();
    } catch {
      // None yet, or one that another program has replaced by something else: the line editor works without it.
      return "";
    }
  }
}

/** For the user only, and through no link. Returns the size of the file. */
function writeTo(path: string, how: number, text: string): number {
  const fd = openSync(path, O_WRONLY | O_CREAT | O_NOFOLLOW | how, 0o600);
  try {
    writeSync(fd, text);
    return fstatSync(fd).size;
  } finally {
    closeSync(fd);
  }
}

function entriesIn(text: string): string[] {
  return text.split("\n").flatMap((line) => {
    try {
      const entry: unknown = JSON.parse(line);
      return typeof entry === "string" ? [entry] : [];
    } catch {
      return [];
    }
  });
}

/** Columns of a message that are kept of its first lines; the menu cuts them to its width. */
const LABEL_WIDTH = 500;

/** The entries with all words of `query`, in upper or lower case, the newest first. `entries`: the oldest first. */
export function searchHistory(entries: readonly string[], query: string): Suggestions {
  const words = query.toLowerCase().split(/\s+/);
  const found = new Set(
    entries.toReversed().filter((entry) => words.every((word) => entry.toLowerCase().includes(word))),
  );
  const items = [...found].map((text) => ({ text, label: oneLine(text, LABEL_WIDTH), about: "" }));
  return { kind: "history", from: 0, items };
}
