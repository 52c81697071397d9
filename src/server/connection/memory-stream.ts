/** A connection within this process. */

import { EventEmitter } from "node:events";
import type { ByteStream } from "./connection.ts";

/** Bytes that may wait for a reader before `write` returns false. */
const HIGH_WATER_BYTES = 64 * 1024;

/**
 * The two ends of a connection within this process, for `--no-daemon`. It replaces node:stream's duplexPair, which
 * takes longer to load than a whole request. Each end reads in order what the other wrote, never within the write
 * itself. Destroying one end destroys both.
 */
export function memoryPair(): [ByteStream, ByteStream] {
  const one = new MemoryStream();
  const other = new MemoryStream();
  one.other = other;
  other.other = one;
  return [one, other];
}

class MemoryStream extends EventEmitter implements ByteStream {
  other: MemoryStream | undefined;
  /** Written by the other end, not read yet. */
  readonly #unread: Uint8Array[] = [];
  #unreadBytes = 0;
  #paused = true;
  #readsSoon = false;
  /** The other end has ended its writing. */
  #ending = false;
  #destroyed = false;

  constructor() {
    super();
    this.on("newListener", (event) => {
      if (event === "data") this.resume();
    });
  }

  write(text: string): boolean {
    return this.other?.take(Buffer.from(text)) ?? false;
  }

  /** "finish", and `done`, come when the other end has read everything. */
  end(text?: string, done?: () => void): void {
    if (done) this.once("finish", done);
    if (text !== undefined) this.write(text);
    this.other?.takeEnd();
  }

  pause(): void {
    this.#paused = true;
  }

  resume(): void {
    this.#paused = false;
    this.#readSoon();
  }

  /** What was not read yet is lost. Safe to call again. */
  destroy(): void {
    if (this.#destroyed) return;
    this.#destroyed = true;
    this.#unread.length = 0;
    queueMicrotask(() => this.emit("close"));
    this.other?.destroy();
  }

  take(chunk: Uint8Array): boolean {
    if (this.#destroyed) return false;
    this.#unread.push(chunk);
    this.#unreadBytes += chunk.length;
    this.#readSoon();
    return this.#unreadBytes < HIGH_WATER_BYTES;
  }

  takeEnd(): void {
    this.#ending = true;
    this.#readSoon();
  }

  #readSoon(): void {
    if (this.#readsSoon) return;
    this.#readsSoon = true;
    queueMicrotask(() => this.#read());
  }

  #read(): void {
    this.#readsSoon = false;
    while (this.#canRead()) {
      const chunk = this.#unread.shift();
      if (!chunk) break;
      const full = this.#unreadBytes >= HIGH_WATER_BYTES;
      this.#unreadBytes -= chunk.length;
      this.emit("data", chunk);
      if (full && this.#unreadBytes < HIGH_WATER_BYTES) this.other?.emit("drain");
    }
    if (!this.#ending || !this.#canRead() || this.#unread.length > 0) return;
    this.#ending = false;
    this.emit("end");
    this.other?.emit("finish");
  }

  #canRead(): boolean {
    return !this.#paused && !this.#destroyed;
  }
}
