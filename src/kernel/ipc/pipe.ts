/** A pipe between two files. */

import { onceAborted } from "../../lib/clock.ts";
import { type Data, type FileStat, SyscallError, type VFSFile } from "../../plugin/index.ts";

/** Maximum bytes between writer and reader, as on Linux. A write waits for space. */
export const PIPE_BYTES = 64 * 1024;

const NOTHING = new Uint8Array(0);

/**
 * A pipe delivers bytes in order and holds at most 64 KiB. Each end is a file of the process that holds it.
 * The memory is freed when both ends are closed.
 */
export class Pipe {
  readonly writer: VFSFile;
  readonly reader: VFSFile;
  readonly #name: string;
  /** Written and not yet read. */
  #bytes: Uint8Array = NOTHING;
  #writerClosed = false;
  #readerClosed = false;
  /** The calls that wait for the other end: at most one per side, because a file serves one call at a time. */
  readonly #waiting = new Set<() => void>();

  constructor(name: string) {
    this.#name = name;
    this.writer = {
      write: (data, signal) => this.#write(data, signal),
      read: async () => {
        throw new SyscallError("PERMISSION", `${name}: this is the writing end.`);
      },
      close: async () => this.#close("writer"),
      stat: async () => this.#stat(),
    };
    this.reader = {
      write: async () => {
        throw new SyscallError("PERMISSION", `${name}: this is the reading end.`);
      },
      read: (max, signal) => this.#read(max, signal),
      close: async () => this.#close("reader"),
      stat: async () => this.#stat(),
    };
  }

  async #write(data: Data, signal: AbortSignal): Promise<void> {
    const bytes = typeof data === "string" ? new TextEncoder().encode(data) : data;
    let written = 0;
    try {
      for (;;) {
        signal.throwIfAborted();
        if (this.#writerClosed) throw new SyscallError("CLOSED", "the writing end was closed");
        if (this.#readerClosed) throw new SyscallError("CLOSED", "the reading end is closed");
        written += this.#put(bytes.subarray(written));
        if (written === bytes.length) return;
        await this.#untilChange(signal);
      }
    } catch (thrown) {
      throw this.#partialWrite(thrown, written, bytes.length);
    }
  }

  /** Returns at most `max` bytes, as soon as there are any; an empty result is the end. */
  async #read(max: number, signal: AbortSignal): Promise<Uint8Array> {
    for (;;) {
      signal.throwIfAborted();
      if (this.#readerClosed) throw new SyscallError("CLOSED", `${this.#name}: the reading end was closed.`);
      if (this.#bytes.length > 0 && max > 0) return this.#take(max);
      if (this.#writerClosed || max <= 0) return NOTHING;
      await this.#untilChange(signal);
    }
  }

  /** Copies the bytes that fit; returns their number. */
  #put(bytes: Uint8Array): number {
    const size = Math.min(bytes.length, PIPE_BYTES - this.#bytes.length);
    if (size === 0) return 0;
    this.#bytes = Buffer.concat([this.#bytes, bytes.subarray(0, size)]);
    this.#wake();
    return size;
  }

  #take(max: number): Uint8Array {
    const taken = this.#bytes.subarray(0, max);
    this.#bytes = this.#bytes.subarray(max);
    this.#wake();
    return taken;
  }

  #close(end: "writer" | "reader"): void {
    if (end === "writer") this.#writerClosed = true;
    else this.#readerClosed = true;
    // Data that won't be read takes no memory.
    if (this.#readerClosed) this.#bytes = NOTHING;
    this.#wake();
  }

  /** Waits until the other end reads, writes or closes. Also returns when the signal is aborted. */
  async #untilChange(signal: AbortSignal): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#waiting.add(resolve);
    const ignore = onceAborted(signal, resolve);
    try {
      await promise;
    } finally {
      ignore();
      this.#waiting.delete(resolve);
    }
  }

  #wake(): void {
    for (const resolve of this.#waiting) resolve();
  }

  async #stat(): Promise<FileStat> {
    return { name: this.#name, size: this.#bytes.length, isDevice: false, devicePath: this.#name };
  }

  /** Adds to the error how many bytes were written before it. */
  #partialWrite(thrown: unknown, written: number, size: number): unknown {
    if (!(thrown instanceof SyscallError)) return thrown;
    return new SyscallError(
      thrown.code,
      `${this.#name}: ${written} of ${size} bytes were written: ${thrown.message}`,
      { cause: thrown },
    );
  }
}
