/** Searches the contents of files, one after the other. */

import { closeSync, constants, fstatSync, openSync, readSync } from "node:fs";
import { binaryKind } from "../content/binary-kind.ts";
import type { LinePattern } from "./line-pattern.ts";
import { type Line, LineReader } from "./line-reader.ts";

export const MAX_FILE_BYTES = 50 * 1024 * 1024;
const CHUNK_BYTES = 1024 * 1024;
const OPEN_READ = constants.O_RDONLY | constants.O_NONBLOCK | constants.O_NOFOLLOW;

/** The outcome for one file: bytes searched, the kind of a binary file, or the size of one too large. */
export type FileOutcome = { bytes: number } | { binary: string } | { large: number };

/** Searches files one after the other with one buffer. It is synchronous, so it runs in a Worker. */
export class FileSearch {
  readonly #pattern: LinePattern;
  readonly #decoder = new TextDecoder();
  readonly #buffer = Buffer.allocUnsafeSlow(CHUNK_BYTES);

  constructor(pattern: LinePattern) {
    this.#pattern = pattern;
  }

  /** Searches the file at a path that is not a symlink. */
  path(path: string, take: (line: Line) => boolean): FileOutcome {
    const fd = openSync(path, OPEN_READ);
    try {
      return this.open(fd, take);
    } finally {
      closeSync(fd);
    }
  }

  /** Searches an open file. `take` gets every line until it returns false. */
  open(fd: number, take: (line: Line) => boolean): FileOutcome {
    const stat = fstatSync(fd);
    if (!stat.isFile()) return { binary: "no regular file" };
    if (stat.size > MAX_FILE_BYTES) return { large: stat.size };
    const buffer = this.#buffer;
    const length = readSync(fd, buffer, 0, CHUNK_BYTES, 0);
    const first = buffer.subarray(0, length);
    const binary = binaryKind(first);
    if (binary !== undefined) return { binary };
    const isWhole = length < CHUNK_BYTES;
    if (isWhole && !this.#pattern.mayMatchIn(this.#decoder.decode(first))) return { bytes: length };
    return { bytes: this.#lines(fd, first, take) };
  }

  #lines(fd: number, first: Buffer, take: (line: Line) => boolean): number {
    const lines = new LineReader(this.#pattern);
    let chunk = first;
    let position = 0;
    while (chunk.length > 0) {
      position += chunk.length;
      if (!lines.add(chunk, take)) return position;
      chunk = this.#buffer.subarray(0, readSync(fd, this.#buffer, 0, CHUNK_BYTES, position));
    }
    lines.end(take);
    return position;
  }
}
