/** The writer of a run's trace of syscalls. */

import { join } from "node:path";
import { SyscallError } from "../../plugin/index.ts";
import { AppendLog } from "../files/append-log.ts";
import type { FsPort } from "../files/fs-port.ts";
import { EVENTS, versioned } from "./run-files.ts";
import type { SyscallEventWire } from "./schema.ts";

/** Events buffered in memory before one write. */
const BATCH = 256;
/** Maximum events that wait for a failing disk; later ones are counted and dropped. */
const MAX_PENDING = 16 * BATCH;

interface EventLogOptions {
  uuid: string;
  dir: string;
  fs: FsPort;
  /** Maximum lines of the file; later events are counted and dropped. */
  limit: number;
  /** The number of events in the file, or why it can't be read; then all events are counted and dropped. */
  taken: number | SyscallError;
}

/** The file events.jsonl of one run. It is written in batches, and need not be durable. */
export class EventLog {
  /** Why no event is recorded: the file can't be read. */
  readonly untraced: SyscallError | undefined;
  readonly #open: () => AppendLog;
  #log: AppendLog | undefined;
  readonly #limit: number;
  #pending: string[] = [];
  #taken: number;
  #dropped = 0;
  #last: SyscallEventWire | undefined;

  constructor({ uuid, dir, fs, limit, taken }: EventLogOptions) {
    this.#open = () => new AppendLog(join(dir, EVENTS), `${EVENTS} of run ${uuid}`, { fs });
    this.#limit = limit;
    this.untraced = typeof taken === "object" ? taken : undefined;
    this.#taken = typeof taken === "object" ? Number.POSITIVE_INFINITY : taken;
  }

  add(event: SyscallEventWire): void {
    if (this.#taken >= this.#limit || this.#pending.length >= MAX_PENDING) {
      this.#dropped++;
      this.#last = event;
      return;
    }
    this.#taken++;
    this.#pending.push(versioned(event));
    if (this.#pending.length >= BATCH) this.flush();
  }

  /** Writes the buffered events. After a failure they stay buffered, and the next call tries again. */
  flush(): void {
    while (this.#pending.length > 0) {
      this.#append(...this.#pending.slice(0, BATCH));
      this.#pending = this.#pending.slice(BATCH);
    }
  }

  /** Ends a truncated file with a line that counts the missing events. The next `flush` writes it. */
  recordDropped(): void {
    if (this.#dropped === 0 || !this.#last) return;
    const { timestamp_ms, pid } = this.#last;
    const error = `${this.#dropped} events are not recorded: the limit of a run is ${this.#limit}, or the disk rejected them.`;
    const args = { dropped: this.#dropped, limit: this.#limit };
    this.#dropped = 0;
    const what = { syscall: "EventsDropped", args, error, error_code: "EXHAUSTED", duration_ms: 0 };
    const line = versioned({ timestamp_ms, pid, ...what });
    if (this.untraced) this.#tryToWrite(line);
    else this.#pending.push(line);
  }

  #append(...lines: string[]): void {
    this.#log ??= this.#open();
    this.#log.append(...lines);
  }

  /** Tries to append to a file that could not be read. A failure is expected: `untraced` already reports it. */
  #tryToWrite(line: string): void {
    try {
      this.#append(line);
    } catch (error) {
      if (!(error instanceof SyscallError)) throw error;
    }
  }
}
