/** Log files of bounded size: the daemon's, and one for each mount. */

import { closeSync, constants, mkdirSync, renameSync, statSync, writeSync } from "node:fs";
import { dirname, join } from "node:path";
import type { Clock } from "../../lib/clock.ts";
import { errnoOf } from "../../lib/error-detail.ts";
import { openPlain } from "../../store/files/fs-port.ts";
import { kernelFolders } from "./kernel-locks.ts";

/** One older file of the same size is kept beside it. */
const MAX_BYTES = 1024 * 1024;

/**
 * Opens the log for appending. It must be a regular file: a pipe in its place would block the writer.
 * Its folder is made when it is not there.
 */
export function openDaemonLog(path: string): number {
  const flags = constants.O_WRONLY | constants.O_APPEND | constants.O_CREAT;
  try {
    return openPlain(path, flags);
  } catch (error) {
    if (errnoOf(error) !== "ENOENT") throw error;
    mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
    return openPlain(path, flags);
  }
}

/** A log of bounded size. A line that can't be written (a full disk) is counted; the next line states the count. */
export class DaemonLog {
  readonly path: string;
  readonly #clock: Clock;
  readonly #maxBytes: number;
  #size: number;
  #lost = 0;

  constructor(path: string, clock: Clock, maxBytes = MAX_BYTES) {
    this.path = path;
    this.#clock = clock;
    this.#maxBytes = maxBytes;
    this.#size = statSync(path, { throwIfNoEntry: false })?.size ?? 0;
  }

  write(text: string): void {
    const lines = this.#lost === 1 ? "line" : "lines";
    const lost = this.#lost > 0 ? `(${this.#lost} ${lines} before this one could not be written) ` : "";
    const line = `${new Date(this.#clock.now()).toISOString()} [${process.pid}] ${lost}${text}\n`;
    try {
      this.#append(line);
      this.#lost = 0;
    } catch {
      this.#lost++;
    }
  }

  #append(line: string): void {
    if (this.#size > 0 && this.#size + line.length > this.#maxBytes) {
      renameSync(this.path, `${this.path}.1`);
      this.#size = 0;
    }
    const fd = openDaemonLog(this.path);
    try {
      writeSync(fd, line);
    } finally {
      closeSync(fd);
    }
    this.#size += line.length;
  }
}

/** `mount`: its type and name, such as "mcp github". */
export function mountLogPath(userDataDir: string, mount: string): string {
  return join(kernelFolders(userDataDir).mountLogs, `${mount.replace(" ", "-")}.log`);
}

/** Appends a line to the log of a mount. Never throws: a line that can't be written is dropped. */
export function mountLog(userDataDir: string, clock: Clock, mount: string, text: string): void {
  try {
    new DaemonLog(mountLogPath(userDataDir, mount), clock).write(text);
  } catch {
    // The size of the file can't be read: the server that printed the line goes on.
  }
}
