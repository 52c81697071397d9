import { readSync } from "node:fs";

/** Reads bytes as they come, one read at a time. */
export interface ByteReader {
  read(): Promise<{ done: boolean; value?: Uint8Array }>;
  cancel(): Promise<void>;
  /** Whether there are bytes, or the end, that no read has brought yet. Absent where that can't be seen. */
  unread?(): boolean;
}

/**
 * Reads what a program prints into a pipe of ours. Most programs end within milliseconds and print little: theirs is
 * taken in one look when they have ended. Only of one that goes on is the pipe given to the event loop. Its stream
 * costs a turn of the loop for each piece and 128 KiB, which live until the next full collection.
 */
export class PipeReader implements ByteReader {
  readonly #fd: number;
  readonly #firstLook: Promise<unknown>;
  readonly #readable: (fd: number) => boolean;
  #stream: ByteReader | undefined;
  #cancelled = false;
  #ended = false;

  /**
   * `fd` stays the caller's, who closes it after `cancel`. `firstLook` settles when the program has ended, or has run
   * for a while. `readable`: whether a read would return at once, with bytes or the end.
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

  unread(): boolean {
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

/** As much as a pipe holds. Shared: it is copied from before anything else runs. */
const buffer = new Uint8Array(64 * 1024);
