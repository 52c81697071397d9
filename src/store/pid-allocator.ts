/** Allocates PIDs for all kernels of a user. */

import { dirname } from "node:path";
import { z } from "zod";
import { SCHEMA_VERSION } from "../lib/schema-version.ts";
import { SyscallError } from "../plugin/index.ts";
import { isOfNewerSchema, makeFolder, parseDocument } from "./files/document.ts";
import { FileLock } from "./files/file-lock.ts";
import { type FsPort, ioError, realFs, withFile, writeAll } from "./files/fs-port.ts";

const BLOCK = 16;
const LOCK_WAIT_MS = 2_000;

/**
 * Allocates growing PIDs for all kernels of a user. One file holds the highest reserved PID. A kernel reserves blocks
 * under a lock. When it ends in order, it returns unused PIDs unless another kernel has reserved more. After a crash the
 * rest of its block is never used. A copy of the file replaces a damaged or missing one.
 */
export class PidAllocator {
  readonly #file: string;
  readonly #copy: string;
  readonly #fs: FsPort;
  readonly #warn: (text: string) => void;
  readonly #block: number;
  /** The last PID allocated, and the last PID of our block. */
  #given = 0;
  #last = 0;

  /** `warn` is called when the file was damaged and is restored. */
  constructor(file: string, o: { fs?: FsPort; block?: number; warn?: (text: string) => void } = {}) {
    this.#file = file;
    this.#copy = `${file}.copy`;
    this.#warn = o.warn ?? (() => undefined);
    this.#fs = o.fs ?? realFs;
    this.#block = o.block ?? BLOCK;
  }

  /** Returns the next PID. Fails with EXHAUSTED or UNAVAILABLE when the file cannot be written. */
  next(): number {
    if (this.#given >= this.#last) this.#reserve();
    return ++this.#given;
  }

  /** Returns unused PIDs. The allocator stays usable; it then reserves a new block. */
  release(): void {
    if (this.#given >= this.#last) return;
    this.#locked((fd) => {
      // Not synced: if this write is lost, the PIDs are only skipped.
      if (this.#read(fd) === this.#last) this.#write(fd, this.#given);
    });
    this.#last = this.#given;
  }

  #reserve(): void {
    this.#locked((fd) => {
      const highest = this.#read(fd);
      const last = highest + this.#block;
      // Write the copy first, so that it is never behind the file. Not synced: it only repairs later damage.
      this.#opened(this.#copy, (copy) => this.#write(copy, last));
      this.#write(fd, last);
      this.#fs.fdatasyncNow(fd);
      this.#given = highest;
      this.#last = last;
    });
  }

  #locked(use: (fd: number) => void): void {
    makeFolder(dirname(this.#file), this.#fs);
    const lock = FileLock.acquireNow(`${this.#file}.lock`, LOCK_WAIT_MS);
    try {
      this.#opened(this.#file, use);
    } catch (error) {
      throw ioError(error, "store the PIDs", this.#file);
    } finally {
      lock.release();
    }
  }

  #opened<T>(path: string, use: (fd: number) => T): T {
    return withFile(this.#fs, path, "update", use);
  }

  /** Fails with UNAVAILABLE when the file and its copy are damaged, or a newer rnix wrote the file. */
  #read(fd: number): number {
    const text = this.#textOf(fd);
    const isNew = text === "" && this.#fs.stat(this.#copy) === null;
    if (isNew) return 0;
    try {
      return parse(text, this.#file);
    } catch (damage) {
      const copy = isOfNewerSchema(text) ? null : this.#readCopy();
      if (copy === null) throw damage;
      this.#warn(`${this.#file} was damaged. Its copy says ${copy}: the file was restored from it.`);
      return copy;
    }
  }

  #readCopy(): number | null {
    if (this.#fs.stat(this.#copy) === null) return null;
    const text = this.#opened(this.#copy, (fd) => this.#textOf(fd));
    try {
      return parse(text, this.#copy);
    } catch {
      return null; // Damaged too: the caller reports the file's own damage.
    }
  }

  #textOf(fd: number): string {
    const bytes = new Uint8Array(128);
    return new TextDecoder().decode(bytes.subarray(0, this.#fs.read(fd, bytes, 0)));
  }

  /** Writes in place and with a fixed length, so that the number is never missing. */
  #write(fd: number, last: number): void {
    const data = Buffer.from(`{"v":${SCHEMA_VERSION},"last":${String(last).padStart(16)}}\n`);
    writeAll(this.#fs, fd, data);
    this.#fs.truncate(fd, data.length);
  }
}

const PidFile = z.object({ v: z.literal(SCHEMA_VERSION), last: z.int().nonnegative() });

function parse(text: string, file: string): number {
  try {
    return parseDocument(PidFile, text, file).last;
  } catch (cause) {
    if (!(cause instanceof SyscallError)) throw cause;
    const message = `${cause.message} To repair it, write {"v":1,"last":N} into it, where N is the highest PID ever shown.`;
    throw new SyscallError("UNAVAILABLE", message, { cause });
  }
}
