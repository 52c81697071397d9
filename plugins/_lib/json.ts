/** JSON from outside: objects, requests that are written to devices, and a limit of nesting. */

import { SyscallError } from "rnix/plugin";

/** Whether a value is an object with named fields: neither null nor a list. */
export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** The JSON object of a text. Any other text fails with INVALID; the message names the device and what it expects. */
export function jsonObject(
  device: string,
  text: string,
  expected = "a JSON object",
): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(text);
    if (isObject(value)) return value;
  } catch (cause) {
    throw wrong(device, text, expected, cause);
  }
  throw wrong(device, text, expected);
}

function wrong(device: string, text: string, expected: string, cause?: unknown): SyscallError {
  return new SyscallError("INVALID", `${device}: expected ${expected}, got ${text.slice(0, 100)}`, { cause });
}

/**
 * Maximum levels of nesting in one JSON document from outside. Writing a value of 50,000 levels again blocks the thread
 * for a second, and then fails.
 */
export const MAX_LEVELS = 5_000;

/** What a document is: each line, each server-sent event, or all bytes together. */
type Documents = "lines" | "events" | "one";

const LF = 10;
const CR = 13;
const QUOTE = 34;
const BACKSLASH = 92;
const OPEN_LIST = 91;
const CLOSE_LIST = 93;
const OPEN_OBJECT = 123;
const CLOSE_OBJECT = 125;

/** Counts levels of nesting while bytes arrive, so that deep JSON is refused before it is parsed. */
export class JsonDepth {
  readonly #documents: Documents;
  readonly #maxLevels: number;
  #levels = 0;
  #inString = false;
  #lineIsEmpty = true;
  #last = 0;
  #bytes = 0;

  constructor(documents: Documents, maxLevels = MAX_LEVELS) {
    this.#documents = documents;
    this.#maxLevels = maxLevels;
  }

  /** Bytes of the document that has not ended yet. */
  get bytes(): number {
    return this.#bytes;
  }

  /** Adds the next bytes. Returns true when a document in them exceeds the maximum. */
  exceeds(chunk: Uint8Array): boolean {
    // In local variables: this runs for every byte of every answer.
    const length = chunk.length;
    let levels = this.#levels;
    let inString = this.#inString;
    let last = this.#last;
    let lineIsEmpty = this.#lineIsEmpty;
    let start = -this.#bytes;
    for (let at = 0; at < length; at++) {
      const byte = chunk[at] ?? 0;
      if (byte === LF || byte === CR) {
        if (byte === LF && last === CR) {
          last = byte;
          continue;
        }
        // No string of JSON holds a line break, so a quote in a comment's line does not count.
        inString = false;
        if (this.#documents === "lines" || (this.#documents === "events" && lineIsEmpty)) {
          levels = 0;
          start = at + 1;
        }
        lineIsEmpty = true;
      } else {
        lineIsEmpty = false;
        if (inString) {
          if (last === BACKSLASH) {
            // This byte is escaped, and a backslash here escapes nothing.
            last = 0;
            continue;
          }
          if (byte === QUOTE) inString = false;
        } else if (byte === QUOTE) {
          inString = true;
          last = 0;
          continue;
        } else if (byte === OPEN_LIST || byte === OPEN_OBJECT) {
          if (++levels > this.#maxLevels) return true;
        } else if (byte === CLOSE_LIST || byte === CLOSE_OBJECT) {
          levels = Math.max(0, levels - 1);
        }
      }
      last = byte;
    }
    this.#levels = levels;
    this.#inString = inString;
    this.#last = last;
    this.#lineIsEmpty = lineIsEmpty;
    this.#bytes = length - start;
    return false;
  }
}
