import { dirname } from "node:path";
import { z } from "zod";
import { SyscallError } from "../plugin/index.ts";
import { makeFolder, parseDocument } from "./document.ts";
import { type FsPort, ioError, realFs, writeAll } from "./fs-port.ts";
import { FileLock } from "./lock.ts";
import { SCHEMA_VERSION } from "./schema-version.ts";

const BLOCK = 16;
const LOCK_WAIT_MS = 2_000;

/**
 * Process numbers that only grow, for all kernels of a user: one file holds the highest number handed out.
 * A kernel takes them in blocks under a lock; what it has not used goes back when it ends in order and
 * nobody has taken more since. After a crash the rest of its block is never used.
 */
export class PidSource {
  readonly #file: string;
  readonly #fs: FsPort;
  readonly #block: number;
  /** The last number given, and the last one of our block. */
  #given = 0;
  #last = 0;

  constructor(file: string, o: { fs?: FsPort; block?: number } = {}) {
    this.#file = file;
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
      this.#write(fd, highest + this.#block);
      this.#fs.fdatasyncNow(fd);
      this.#given = highest;
      this.#last = highest + this.#block;
    });
  }

  #locked(use: (fd: number) => void): void {
    makeFolder(dirname(this.#file), this.#fs);
    const lock = FileLock.acquireNow(`${this.#file}.lock`, LOCK_WAIT_MS);
    try {
      const fd = this.#fs.open(this.#file, "update");
      try {
        use(fd);
      } finally {
        this.#fs.close(fd);
      }
    } catch (error) {
      throw ioError(error, "keep the process numbers", this.#file);
    } finally {
      lock.release();
    }
  }

  #read(fd: number): number {
    const bytes = new Uint8Array(128);
    const text = new TextDecoder().decode(bytes.subarray(0, this.#fs.read(fd, bytes, 0)));
    if (text === "") return 0;
    try {
      return parseDocument(PidFile, text, this.#file).last;
    } catch (cause) {
      if (!(cause instanceof SyscallError)) throw cause;
      throw new SyscallError(
        "UNAVAILABLE",
        `${cause.message} To repair it write {"v":1,"last":N} into it, N being the highest PID ever shown.`,
        { cause },
      );
    }
  }

  /** In place and always of the same length: no moment in which the number is missing. */
  #write(fd: number, last: number): void {
    const data = Buffer.from(`{"v":${SCHEMA_VERSION},"last":${String(last).padStart(16)}}\n`);
    writeAll(this.#fs, fd, data);
    this.#fs.truncate(fd, data.length);
  }
}

const PidFile = z.object({ v: z.literal(SCHEMA_VERSION), last: z.int().nonnegative() });
