import { appendFileSync, mkdirSync, renameSync, statSync } from "node:fs";
import { dirname, join } from "node:path";
import type { Clock } from "../kernel/clock.ts";

/** One older file of the same size is kept beside it. */
const MAX_BYTES = 1024 * 1024;

/** Where the daemon writes what nobody is there to read. */
export function daemonLogPath(userDataDir: string): string {
  return join(userDataDir, "daemon.log");
}

/** A log of bounded size. A line that can't be written (a full disk) is counted, and told with the next that can. */
export class DaemonLog {
  readonly path: string;
  readonly #clock: Clock;
  readonly #maxBytes: number;
  #size: number;
  #lost = 0;

  constructor(path: string, clock: Clock, maxBytes = MAX_BYTES) {
    mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
    this.path = path;
    this.#clock = clock;
    this.#maxBytes = maxBytes;
    this.#size = statSync(path, { throwIfNoEntry: false })?.size ?? 0;
  }

  write(text: string): void {
    const lost = this.#lost > 0 ? `(${this.#lost} lines before this one could not be written) ` : "";
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
    appendFileSync(this.path, line, { mode: 0o600 });
    this.#size += line.length;
  }
}
