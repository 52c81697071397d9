/** Reads the output of a program from a pipe. */

import { readSync } from "node:fs";

/** Reads bytes as they come, one read at a time. */
export interface ByteReader {
  read(): Promise<{ done: boolean; value?: Uint8Array }>;
  cancel(): Promise<void>;
  /** Returns true when bytes, or the end, have not been read yet. Absent where the system does not show it. */
  hasUnread?(): boolean;
}

/**
 * Most programs end within milliseconds and print little: their output is read at once after their end. For a program
 * that keeps running, the event loop watches the pipe. Such a stream costs one turn of the loop for each piece, and
 * 128 KiB until the next full garbage collection.
 */
export class PipeReader implements ByteReader {
  readonly #fd: number;
  readonly #firstLook: Promise<unknown>;
  readonly #readable: (fd: number) => boolean;
  #stream: ByteReader | undefined;
  #cancelled = false;
  #ended = false;

  /**
   * The caller closes `fd` after `cancel`. `firstLook` settles when the program has ended, or after a short time.
   * `readable` returns true when a read would return at once, with bytes or the end.
   */
  constructor(fd: number, firstLook: Promise<unknown>, readable: (fd: number) => boolean) {
    this.#fd = fd;
    this.#firstLook = firstLook;
    this.#readable = readable;
  }

  async read(): Promise<{ done: boolean; value?: Uint8Array }> {
    const piece = await this.#next();
    if (piece.done) this.#ended = true;
    return piece;
  }

  hasUnread(): boolean {
    return !this.#ended && !this.#cancelled && this.#readable(this.#fd);
  }

  async #next(): Promise<{ done: boolean; value?: Uint8Array }> {
    if (!this.#stream) {
      await this.#firstLook;
      if (this.#cancelled) return { done: true };
      if (this.#readable(this.#fd)) {
        const size = readSync(this.#fd, buffer);
        return size === 0 ? { done: true } : { done: false, value: buffer.slice(0, size) };
      }
      this.#stream = Bun.file(this.#fd).stream().getReader();
    }
    return this.#stream.read();
  }

  async cancel(): Promise<void> {
    this.#cancelled = true;
    await this.#stream?.cancel();
  }
}

/** The size of a pipe. Shared by all readers: each copies from it synchronously. */
const buffer = new Uint8Array(64 * 1024);
