/** The operation of the tool Read. */

import { SyscallError } from "rnix/plugin";
import { binaryKind, readChunks, TimeSlice } from "./content/read-chunks.ts";
import { cutText, sizeText } from "./display.ts";
import { systemError } from "./errors.ts";
import type { Confinement, OpenedFile } from "./paths/confinement.ts";
import type { ReadInput } from "./tools.ts";

const DEFAULT_LIMIT = 2_000;
const LINE_CHARS = 2_000;
/** A character has up to 4 bytes; no more of a longer line is kept. */
const LINE_BYTES = 4 * LINE_CHARS;
const ANSWER_CHARS = 100_000;
/** Lines after the window are counted in files up to this size. */
const COUNT_BYTES = 16 * 1024 * 1024;
const NEWLINE = 10;
const RETURN = 13;

/** Reads a window of numbered lines. Only the window is held in memory. */
export async function read(confinement: Confinement, input: ReadInput, signal: AbortSignal): Promise<string> {
  const file = await confinement.open(input.path);
  const shown = confinement.shown(file.path);
  try {
    const window = new Window(input.offset ?? 1, input.limit ?? DEFAULT_LIMIT);
    const binary = await fill(window, file, signal);
    if (binary !== undefined)
      return `[${shown} is a binary file (${binary}, ${sizeText(file.stat.size)}): there is no text to show.]`;
    return answer(window, shown, file);
  } catch (thrown) {
    throw systemError(thrown, `read ${shown}`);
  } finally {
    await file.handle.close();
  }
}

/** Fills the window. Returns the kind of a binary file, which has no lines. */
async function fill(window: Window, file: OpenedFile, signal: AbortSignal): Promise<string | undefined> {
  const slice = new TimeSlice(signal);
  let first = true;
  for await (const chunk of readChunks(file.handle, signal)) {
    const binary = first ? binaryKind(chunk) : undefined;
    if (binary !== undefined) return binary;
    window.add(first ? withoutMark(chunk) : chunk);
    first = false;
    if (window.full && file.stat.size > COUNT_BYTES) return undefined;
    if (slice.spent(chunk.length)) await slice.rest();
  }
  window.end();
  return undefined;
}

function answer(window: Window, shown: string, file: OpenedFile): string {
  const { lines, from, next, total, lossy } = window;
  if (total === 0) return `[${shown} is empty.]`;
  if (total !== undefined && from > total) {
    const message = `${shown} has ${total} ${total === 1 ? "line" : "lines"}; an offset of ${from} is beyond its end.`;
    throw new SyscallError("INVALID", message);
  }
  const remarks: string[] = [];
  if (lossy) remarks.push("The file is not valid UTF-8: invalid bytes are shown as \uFFFD.");
  if (total === undefined) {
    remarks.push(
      `Lines ${from} to ${next - 1} of a file of ${sizeText(file.stat.size)}. Continue with offset ${next}.`,
    );
  } else if (next <= total) {
    remarks.push(`Lines ${from} to ${next - 1} of ${total}. Continue with offset ${next}.`);
  } else if (from > 1) {
    remarks.push(`The file ends here; it has ${total} lines.`);
  }
  return [...lines, ...remarks.map((remark) => `[${remark}]`)].join("\n");
}

/** Takes a file's bytes in order and keeps the lines asked for. */
class Window {
  readonly from: number;
  readonly lines: string[] = [];
  /** Number of the first line after the window. */
  next: number;
  /** The number of lines; known when the file was read to its end. */
  total: number | undefined;
  lossy = false;
  readonly #last: number;
  #chars = 0;
  #line = 1;
  #kept: Uint8Array[] = [];
  #keptBytes = 0;
  #lineBytes = 0;

  constructor(from: number, limit: number) {
    this.from = from;
    this.next = from;
    this.#last = from + limit - 1;
  }

  get full(): boolean {
    return this.#line > this.#last || this.#chars >= ANSWER_CHARS;
  }

  add(chunk: Uint8Array): void {
    let start = 0;
    while (start < chunk.length) {
      if (this.full || this.#line < this.from) {
        start = this.#skip(chunk, start);
        continue;
      }
      const newline = chunk.indexOf(NEWLINE, start);
      const end = newline < 0 ? chunk.length : newline;
      this.#keep(chunk.subarray(start, end));
      if (newline >= 0) this.#endLine();
      start = end + 1;
    }
  }

  end(): void {
    if (this.#lineBytes > 0) this.#endLine();
    this.total = this.#line - 1;
  }

  /** Skips lines outside the window. Returns the position of the next line to keep. */
  #skip(chunk: Uint8Array, start: number): number {
    const stop = this.full ? Number.POSITIVE_INFINITY : this.from;
    for (let index = start; index < chunk.length; index++) {
      if (chunk[index] !== NEWLINE) {
        this.#lineBytes = 1;
        continue;
      }
      this.#line++;
      this.#lineBytes = 0;
      if (this.#line >= stop) return index + 1;
    }
    return chunk.length;
  }

  #keep(piece: Uint8Array): void {
    this.#lineBytes += piece.length;
    const room = LINE_BYTES - this.#keptBytes;
    if (room <= 0 || piece.length === 0) return;
    // A copy: the chunk's buffer is reused.
    const kept = piece.slice(0, room);
    this.#kept.push(kept);
    this.#keptBytes += kept.length;
  }

  #endLine(): void {
    if (!this.full && this.#line >= this.from) {
      const shown = `${this.#line}\t${this.#text()}`;
      this.lines.push(shown);
      this.#chars += shown.length + 1;
      this.next = this.#line + 1;
    }
    this.#line++;
    this.#kept = [];
    this.#keptBytes = 0;
    this.#lineBytes = 0;
  }

  #text(): string {
    let bytes: Uint8Array = this.#kept.length === 1 ? (this.#kept[0] ?? EMPTY) : Buffer.concat(this.#kept);
    const cut = this.#lineBytes > bytes.length;
    if (cut) bytes = bytes.subarray(0, wholeCharacters(bytes));
    else if (bytes.at(-1) === RETURN) bytes = bytes.subarray(0, -1);
    let text: string;
    try {
      text = strict.decode(bytes);
    } catch (thrown) {
      if (!(thrown instanceof TypeError)) throw thrown;
      this.lossy = true;
      text = lenient.decode(bytes);
    }
    if (!cut && text.length <= LINE_CHARS) return text;
    return `${cutText(text, LINE_CHARS)}… [line cut here: it has ${this.#lineBytes} bytes]`;
  }
}

const EMPTY = new Uint8Array();
const strict = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
const lenient = new TextDecoder("utf-8", { ignoreBOM: true });

/** The number of bytes without an incomplete character at the end. */
function wholeCharacters(bytes: Uint8Array): number {
  let end = bytes.length;
  while (end > 0 && bytes.length - end < 4 && ((bytes[end - 1] ?? 0) & 0xc0) === 0x80) end--;
  return (bytes[end - 1] ?? 0) >= 0xc0 ? end - 1 : bytes.length;
}

function withoutMark(chunk: Uint8Array): Uint8Array {
  return chunk[0] === 0xef && chunk[1] === 0xbb && chunk[2] === 0xbf ? chunk.subarray(3) : chunk;
}
