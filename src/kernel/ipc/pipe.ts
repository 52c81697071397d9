/** A pipe between two files. */

import { onceAborted } from "../../lib/cancellation.ts";
import { type Data, type FileStat, SyscallError, type VFSFile } from "../../plugin/index.ts";

/** Maximum bytes between writer and reader, as on Linux. A write waits for space. */
export const PIPE_BYTES = 64 * 1024;

const NOTHING = new Uint8Array(0);

/**
 * A pipe (seeds 8.1) delivers bytes in order and holds at most 64 KiB. Each end is a file of the process that holds it.
 * The memory is freed when both ends are closed.
 */
export class Pipe {
  readonly writer: VFSFile;
  readonly reader: VFSFile;
  readonly #name: string;
  /** Made with the first write. */
  #ring = NOTHING;
  #start = 0;
  #filled = 0;
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
      if (this.#filled > 0 && max > 0) return this.#get(max);
      if (this.#writerClosed || max <= 0) return NOTHING;
      await this.#untilChange(signal);
    }
  }

  /** Copies the bytes that fit; returns their number. */
  #put(bytes: Uint8Array): number {
    const size = Math.min(bytes.length, PIPE_BYTES - this.#filled);
    if (size === 0) return 0;
    if (this.#ring.length === 0) this.#ring = new Uint8Array(PIPE_BYTES);
    const at = (this.#start + this.#filled) % PIPE_BYTES;
    const first = Math.min(size, PIPE_BYTES - at);
    this.#ring.set(bytes.subarray(0, first), at);
    this.#ring.set(bytes.subarray(first, size), 0);
    this.#filled += size;
    this.#wake();
    return size;
  }

  #get(max: number): Uint8Array {
    const size = Math.min(max, this.#filled);
    const first = Math.min(size, PIPE_BYTES - this.#start);
    const bytes = new Uint8Array(size);
    bytes.set(this.#ring.subarray(this.#start, this.#start + first), 0);
    bytes.set(this.#ring.subarray(0, size - first), first);
    this.#start = (this.#start + size) % PIPE_BYTES;
    this.#filled -= size;
    this.#wake();
    return bytes;
  }

  #close(end: "writer" | "reader"): void {
    if (end === "writer") this.#writerClosed = true;
    else this.#readerClosed = true;
    // Data that won't be read takes no memory.
    if (this.#readerClosed) {
      this.#ring = NOTHING;
      this.#filled = 0;
    }
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
    return { name: this.#name, size: this.#filled, isDevice: false, devicePath: this.#name };
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
