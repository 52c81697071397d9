/** Reads a file in chunks, recognizes binary files, and yields the thread between slices of long work. */

import type { FileHandle } from "node:fs/promises";

export const CHUNK_BYTES = 64 * 1024;

/** A file's bytes from its start in chunks. A chunk is valid until the next one is read. */
export async function* readChunks(handle: FileHandle, signal: AbortSignal): AsyncGenerator<Uint8Array> {
  const buffer = Buffer.allocUnsafe(CHUNK_BYTES);
  for (let position = 0; ; ) {
    signal.throwIfAborted();
    const { bytesRead } = await handle.read(buffer, 0, buffer.length, position);
    if (bytesRead === 0) return;
    position += bytesRead;
    yield buffer.subarray(0, bytesRead);
  }
}

/** Bytes at a file's start that decide whether it is text. */
const PROBE_BYTES = 8_192;

/** The kind of a binary file by its first bytes; undefined for text. */
export function binaryKind(start: Uint8Array): string | undefined {
  const head = Buffer.from(start.buffer, start.byteOffset, Math.min(start.length, PROBE_BYTES));
  const latin = head.toString("latin1", 0, 16);
  for (const [kind, magic] of MAGIC) if (latin.startsWith(magic)) return kind;
  if (latin.startsWith("RIFF") && latin.slice(8, 12) === "WEBP") return "WebP image";
  return head.includes(0) ? "unknown kind" : undefined;
}

const MAGIC: readonly [string, string][] = [
  ["PNG image", "\x89PNG"],
  ["JPEG image", "\xff\xd8\xff"],
  ["GIF image", "GIF8"],
  ["PDF document", "%PDF-"],
  ["ZIP archive (also jar, docx, xlsx)", "PK\x03\x04"],
  ["gzip archive", "\x1f\x8b"],
  ["xz archive", "\xfd7zXZ\0"],
  ["Zstandard archive", "\x28\xb5\x2f\xfd"],
  ["7z archive", "7z\xbc\xaf\x27\x1c"],
  ["ELF program", "\x7fELF"],
  ["Mach-O program", "\xcf\xfa\xed\xfe"],
  ["WebAssembly module", "\0asm"],
  ["SQLite database", "SQLite format 3\0"],
  ["UTF-16 text; `iconv -f UTF-16 -t UTF-8` makes it readable", "\xff\xfe"],
  ["UTF-16 text; `iconv -f UTF-16 -t UTF-8` makes it readable", "\xfe\xff"],
];

/** Work of about 2 ms on a slow machine; one unit is one byte examined. */
const UNITS = 256 * 1024;

/** Divides work into slices and yields the thread after each, so that the kernel is not blocked. */
export class TimeSlice {
  readonly #signal: AbortSignal;
  #left = UNITS;

  constructor(signal: AbortSignal) {
    this.#signal = signal;
  }

  /** Counts finished work. True when the slice is used up: call `rest` before more work. */
  spent(units: number): boolean {
    this.#left -= units;
    return this.#left <= 0;
  }

  /** Yields the thread for a turn of the event loop. Fails once the signal has fired. */
  async rest(): Promise<void> {
    this.#left = UNITS;
    await new Promise<void>((resolve) => setImmediate(resolve));
    this.#signal.throwIfAborted();
  }
}
