/** A file that a report is written into: never through a link of the checkout, and without waiting for a reader. */

import {
  accessSync,
  closeSync,
  constants,
  fstatSync,
  ftruncateSync,
  lstatSync,
  openSync,
  realpathSync,
  writeSync,
} from "node:fs";
import { basename, dirname, join, resolve } from "node:path";
import { errnoOf } from "../../lib/error-detail.ts";
import { SyscallError } from "../../plugin/index.ts";
import { usageError } from "../exit.ts";
import type { Io } from "../io.ts";

/** Without O_NONBLOCK, a FIFO without a reader would block the command. */
const WRITE = constants.O_WRONLY | constants.O_CREAT | constants.O_NONBLOCK | constants.O_NOCTTY;
/** How long the reader of a pipe may take. */
const READER_MS = 10_000;
const RETRY_MS = 10;

/**
 * A report is written when a run is over that may have changed the checkout. A pull request or the run could make the
 * file a link to a file of the user, such as a shell's start file: a link is refused, before the run and after it.
 */
export class ReportFile {
  readonly path: string;
  /** /dev/stdout and /dev/fd/3 are links of the system. */
  readonly #follows: boolean;

  /** Fails with INVALID when the file can't be written: a run may cost money, so this is checked before it. */
  static named(io: Io, flag: string, name: string | undefined): ReportFile | undefined {
    if (name === undefined) return undefined;
    const file = resolve(io.cwd, name);
    const found = lstatSync(file, { throwIfNoEntry: false });
    const isSystem = /^\/(dev|proc)\//.test(file);
    if (found?.isDirectory()) throw usageError(`${flag}: expected a file, got the folder ${name}`);
    if (found?.isSymbolicLink() && !isSystem)
      throw usageError(`${flag}: ${name} is a link. Name the file that it leads to, or remove the link`);
    try {
      accessSync(found ? file : dirname(file), constants.W_OK);
    } catch {
      throw usageError(`${flag}: ${name} can't be written: its folder is missing or closed to you`);
    }
    return new ReportFile(file, isSystem);
  }

  constructor(file: string, follows = false) {
    this.path = follows ? file : join(realFolder(dirname(file)), basename(file));
    this.#follows = follows;
  }

  /** Replaces the content, or appends to it. Throws the system's error, or a SyscallError. */
  async write(text: string, how: "replace" | "append" = "replace"): Promise<void> {
    const fd = this.#open();
    try {
      const isFile = fstatSync(fd).isFile();
      if (isFile && how === "replace") ftruncateSync(fd, 0);
      await writeAll(fd, Buffer.from(text), isFile && how === "append" ? fstatSync(fd).size : null);
    } finally {
      closeSync(fd);
    }
  }

  #open(): number {
    if (!this.#follows && realpathSync(dirname(this.path)) !== dirname(this.path))
      throw new SyscallError("INVALID", "a folder on its path is a link now");
    try {
      return openSync(this.path, this.#follows ? WRITE : WRITE | constants.O_NOFOLLOW, 0o666);
    } catch (error) {
      const cause = { cause: error };
      if (errnoOf(error) === "ELOOP") throw new SyscallError("INVALID", "it is a link now", cause);
      if (errnoOf(error) === "ENXIO") throw new SyscallError("INVALID", "no program reads from it", cause);
      throw error;
    }
  }
}

/** Links on the way to it are the user's: they were there before the run. */
function realFolder(folder: string): string {
  try {
    return realpathSync(folder);
  } catch (error) {
    if (errnoOf(error) === undefined) throw error;
    // The write fails, and says why.
    return folder;
  }
}

async function writeAll(fd: number, bytes: Buffer, position: number | null): Promise<void> {
  const giveUp = performance.now() + READER_MS;
  for (let done = 0; done < bytes.length; ) {
    try {
      done += writeSync(fd, bytes, done, bytes.length - done, position === null ? null : position + done);
    } catch (error) {
      if (errnoOf(error) !== "EAGAIN") throw error;
      if (performance.now() > giveUp)
        throw new SyscallError("TIMEOUT", `its reader took only ${done} of ${bytes.length} bytes`, {
          cause: error,
        });
      await Bun.sleep(RETRY_MS);
    }
  }
}
