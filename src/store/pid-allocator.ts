import { dirname } from "node:path";
import { z } from "zod";
import { SyscallError } from "../plugin/index.ts";
import { isOfNewerSchema, makeFolder, parseDocument } from "./files/document.ts";
import { FileLock } from "./files/file-lock.ts";
import { type FsPort, ioError, realFs, writeAll } from "./files/fs-port.ts";
import { SCHEMA_VERSION } from "./files/schema-version.ts";

const BLOCK = 16;
const LOCK_WAIT_MS = 2_000;

/**
 * Process numbers that only grow, for all kernels of a user: one file holds the highest number handed out.
 * A kernel takes them in blocks under a lock; what it has not used goes back when it ends in order and
 * nobody has taken more since. After a crash the rest of its block is never used. A second file beside it has the
 * highest number that was ever reserved, for when the first one is damaged or gone.
 */
export class PidAllocator {
  readonly #file: string;
  readonly #copy: string;
  readonly #fs: FsPort;
  readonly #warn: (text: string) => void;
  readonly #block: number;
  /** The last number given, and the last one of our block. */
  #given = 0;
  #last = 0;

  /** `warn`: hears that the file was damaged and is made anew. */
  constructor(file: string, o: { fs?: FsPort; block?: number; warn?: (text: string) => void } = {}) {
    this.#file = file;
    this.#copy = `${file}.copy`;
    this.#warn = o.warn ?? (() => undefined);
    this.#fs = o.fs ?? realFs;
    this.#block = o.block ?? BLOCK;
  }

  /** The next number. EXHAUSTED or UNAVAILABLE when the file cannot be written. */
  next(): number {
    if (this.#given >= this.#last) this.#reserve();
    return ++this.#given;
  }

  /** Gives back what was not used. The source can be used on; it then takes a new block. */
  release(): void {
    if (this.#given >= this.#last) return;
    this.#locked((fd) => {
      // Losing this write loses nothing: the numbers are then skipped. So it is not synced.
      if (this.#read(fd) === this.#last) this.#write(fd, this.#given);
    });
    this.#last = this.#given;
  }

  #reserve(): void {
    this.#locked((fd) => {
      const highest = this.#read(fd);
      const last = highest + this.#block;
      // The copy first: it never says less than the file. Not synced: it is for damage that comes later.
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
      throw ioError(error, "keep the process numbers", this.#file);
    } finally {
      lock.release();
    }
  }

  #opened<T>(path: string, use: (fd: number) => T): T {
    const fd = this.#fs.open(path, "update");
    try {
      return use(fd);
    } finally {
      this.#fs.close(fd);
    }
  }

  /** UNAVAILABLE when neither it nor its copy can be read, and when a newer rnix has written it. */
  #read(fd: number): number {
    const text = this.#textOf(fd);
    const isNew = text === "" && this.#fs.stat(this.#copy) === null;
    if (isNew) return 0;
    try {
      return parse(text, this.#file);
    } catch (damage) {
      const copy = isOfNewerSchema(text) ? null : this.#readCopy();
      if (copy === null) throw damage;
      this.#warn(`${this.#file} was damaged. Its copy says ${copy}: it is made anew from that.`);
      return copy;
    }
  }

  #readCopy(): number | null {
    if (this.#fs.stat(this.#copy) === null) return null;
    const text = this.#opened(this.#copy, (fd) => this.#textOf(fd));
    try {
      return parse(text, this.#copy);
    } catch {
      return null; // Damaged too: the file's own damage is told.
    }
  }

  #textOf(fd: number): string {
    const bytes = new Uint8Array(128);
    return new TextDecoder().decode(bytes.subarray(0, this.#fs.read(fd, bytes, 0)));
  }

  /** In place and always of the same length: no moment in which the number is missing. */
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
    throw new SyscallError(
      "UNAVAILABLE",
      `${cause.message} To repair it write {"v":1,"last":N} into it, N being the highest PID ever shown.`,
      { cause },
    );
  }
}
