/** The output of a unit: a file that its program writes, read from behind and bounded on disk. */

import { closeSync, constants, fstatSync, fsyncSync, openSync, readSync } from "node:fs";

/** Bytes of the end of an output that are kept in memory and shown. */
export const TAIL_BYTES = 64 * 1024;
/** Bytes that one look reads; a reader that is further behind skips to the newest. */
const LOOK_BYTES = 1024 * 1024;

interface OutputFileOptions {
  path: string;
  /** Bytes of the newest output that stay on disk. */
  maxBytes: number;
  /** Gives the blocks of the first bytes back to the file system; false where that is not supported. */
  release(fd: number, bytes: number): boolean;
}

/**
 * The program appends to the file itself, so that it also runs on after a crash of the kernel. The file grows in
 * length only: what is beyond `maxBytes` is a hole.
 */
export class OutputFile {
  readonly path: string;
  readonly #o: OutputFileOptions;
  #fd: number | undefined;
  #at = 0;
  #released = 0;

  constructor(o: OutputFileOptions) {
    this.path = o.path;
    this.#o = o;
  }

  /** Opens the file for the program. The caller closes the descriptor. No link is followed. */
  static create(path: string): number {
    const { O_WRONLY, O_CREAT, O_APPEND, O_NOFOLLOW } = constants;
    return openSync(path, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW, 0o600);
  }

  /** Continues behind what was read before. */
  seek(at: number): void {
    this.#at = at;
  }

  /** The offset of the first byte that was not read. */
  get position(): number {
    return this.#at;
  }

  /** Bytes that were appended since the last look, and how many before them were skipped. */
  look(): { data: Uint8Array; skipped: number } {
    const fd = this.#open();
    const size = fstatSync(fd).size;
    const skipped = Math.max(0, size - this.#at - LOOK_BYTES);
    this.#at += skipped;
    const data = new Uint8Array(Math.max(0, Math.min(LOOK_BYTES, size - this.#at)));
    let read = 0;
    while (read < data.length) {
      const n = readSync(fd, data, read, data.length - read, this.#at + read);
      if (n === 0) break;
      read += n;
    }
    this.#at += read;
    return { data: data.subarray(0, read), skipped };
  }

  /** False when the file is larger than `maxBytes` and its beginning can't be given back. */
  bound(): boolean {
    const fd = this.#open();
    const { maxBytes, release } = this.#o;
    const size = fstatSync(fd).size;
    if (size - this.#released <= 2 * maxBytes) return true;
    this.#released = size - maxBytes;
    return release(fd, this.#released);
  }

  /** The end of the output as text. */
  tail(bytes = TAIL_BYTES): string {
    const fd = openSync(this.path, READ_ONLY);
    try {
      const size = fstatSync(fd).size;
      const from = Math.max(0, size - bytes);
      const data = new Uint8Array(size - from);
      const read = readSync(fd, data, 0, data.length, from);
      const text = new TextDecoder().decode(data.subarray(0, read));
      return from === 0 ? text : `[${from} bytes before this are left out]\n${text}`;
    } finally {
      closeSync(fd);
    }
  }

  /** Makes the output durable and closes the file. Safe to call again. */
  finish(): void {
    if (this.#fd === undefined) return;
    const fd = this.#fd;
    this.#fd = undefined;
    try {
      fsyncSync(fd);
    } finally {
      closeSync(fd);
    }
  }

  #open(): number {
    // For writing: only then can blocks be given back.
    this.#fd ??= openSync(this.path, constants.O_RDWR | constants.O_NOFOLLOW);
    return this.#fd;
  }
}

const READ_ONLY = constants.O_RDONLY | constants.O_NOFOLLOW;
