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
    const refuse = async (end: "reading" | "writing"): Promise<never> => {
      throw new SyscallError("PERMISSION", `${name}: this is the ${end} end.`);
    };
    const stat = async (): Promise<FileStat> => this.#stat();
    this.writer = {
      write: (data, signal) => this.#write(data, signal),
      read: () => refuse("writing"),
      close: async () => this.#close("writer"),
      stat,
    };
    this.reader = {
      write: () => refuse("reading"),
      read: (max, signal) => this.#read(max, signal),
      close: async () => this.#close("reader"),
      stat,
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
      if (!(thrown instanceof SyscallError)) throw thrown;
      const message = `${this.#name}: ${written} of ${bytes.length} bytes were written: ${thrown.message}`;
      throw new SyscallError(thrown.code, message, { cause: thrown });
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

  #stat(): FileStat {
    return { name: this.#name, size: this.#bytes.length, isDevice: false, devicePath: this.#name };
  }
}
