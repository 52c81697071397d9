/** The writer of an append-only log file of JSON lines. */

import { SyscallError } from "../../plugin/index.ts";
import { gatedSync } from "./document.ts";
import { type FsPort, ioError, realFs, withFileAsync, writeAll } from "./fs-port.ts";
import { MAX_LINE_BYTES, NEWLINE } from "./read-log.ts";

/**
 * An append-only file with one JSON document per line. Lines survive a kill when `append` returns, and a power loss
 * when `sync` returns. It has one writer at a time. The file is open only during an append, or with `keepOpen` from the
 * first append to `close`.
 */
export class AppendLog {
  readonly path: string;
  readonly #name: string;
  readonly #fs: FsPort;
  readonly #keepOpen: boolean;
  #fd: number | undefined;
  /** The file is known to end with a newline. Unknown before the first append: a crash may have torn the last line. */
  #whole = false;
  #dirty = false;
  #size = 0;
  #syncing: Promise<void> | undefined;
  #broken: SyscallError | undefined;

  /**
   * `name` is the file's name in messages: "steps.jsonl of run 0190…". `left`: an earlier writer made the file, and may
   * have been killed before it was durable.
   */
  constructor(path: string, name: string, o: { fs?: FsPort; keepOpen?: boolean; left?: boolean } = {}) {
    this.path = path;
    this.#name = name;
    this.#fs = o.fs ?? realFs;
    this.#keepOpen = o.keepOpen ?? false;
    this.#dirty = o.left ?? false;
  }

  get size(): number {
    return this.#size;
  }

  /** Appends lines of JSON text, none of which holds a newline. All of them are written or none. */
  append(...lines: string[]): void {
    if (lines.length === 0) return;
    if (this.#broken) throw this.#broken;
    const data = Buffer.from(`${lines.join("\n")}\n`);
    if (data.length > MAX_LINE_BYTES && lines.some((line) => Buffer.byteLength(line) > MAX_LINE_BYTES)) {
      const message = `A line of ${data.length} bytes does not fit into ${this.#name}: the limit is ${MAX_LINE_BYTES} bytes.`;
      throw new SyscallError("EXHAUSTED", message);
    }
    this.#use(`append to ${this.#name}`, (fd) => this.#write(fd, data));
  }

  /** Makes all appended lines durable. A failure is final, because it is unknown what was lost. */
  async sync(): Promise<void> {
    if (this.#broken) throw this.#broken;
    if (!this.#dirty) return this.#syncing;
    this.#dirty = false;
    this.#syncing = gatedSync(() => this.#fdatasync());
    return this.#syncing;
  }

  empty(): void {
    this.#use(`empty ${this.#name}`, (fd) => {
      this.#fs.truncate(fd, 0);
      this.#size = 0;
      this.#whole = true;
      this.#dirty = true;
    });
  }

  /** Closes the file. The next append opens it again. */
  close(): void {
    if (this.#fd === undefined) return;
    const fd = this.#fd;
    this.#fd = undefined;
    this.#fs.close(fd);
  }

  #use(doing: string, use: (fd: number) => void): void {
    try {
      this.#fd ??= this.#fs.open(this.path, "append");
      try {
        use(this.#fd);
      } finally {
        if (!this.#keepOpen) this.close();
      }
    } catch (error) {
      throw ioError(error, doing, this.path);
    }
  }

  #write(fd: number, data: Uint8Array): void {
    const size = this.#fs.size(fd);
    // End a torn last line first, so that the new line is not part of it.
    const sealed = this.#whole || endsLine(this.#fs, fd, size) ? data : Buffer.concat([SEAL, data]);
    this.#dirty = true;
    this.#whole = false;
    try {
      writeAll(this.#fs, fd, sealed);
    } catch (error) {
      this.#cutBack(fd, size, error);
    }
    this.#size = size + sealed.length;
    this.#whole = true;
  }

  /** Removes a partly written line: the append fails, so the file must not contain it. */
  #cutBack(fd: number, size: number, cause: unknown): never {
    try {
      this.#fs.truncate(fd, size);
    } catch (error) {
      throw new AggregateError([cause, error], "the write failed and could not be undone", { cause });
    }
    throw cause;
  }

  async #fdatasync(): Promise<void> {
    try {
      // A separate descriptor: the log may be closed and reopened during the sync.
      await withFileAsync(this.#fs, this.path, "read", (fd) => this.#fs.fdatasync(fd));
    } catch (error) {
      this.#broken = ioError(error, `make ${this.#name} durable`, this.path);
      throw this.#broken;
    }
  }
}

const SEAL = Buffer.from("\n");

function endsLine(fs: FsPort, fd: number, size: number): boolean {
  if (size === 0) return true;
  const last = new Uint8Array(1);
  return fs.read(fd, last, size - 1) === 1 && last[0] === NEWLINE;
}
