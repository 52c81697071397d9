/** The files of a run: their names, the numbers of their lines, the states of its record, its trace of syscalls. */

import { join } from "node:path";
import { SCHEMA_VERSION } from "../../lib/schema-version.ts";
import { SyscallError } from "../../plugin/index.ts";
import { CHANGES } from "../changes/object-store.ts";
import { AppendLog } from "../files/append-log.ts";
import type { FsPort } from "../files/fs-port.ts";
import type { RecordSeal } from "./record-key.ts";
import type { ProcInfo, StateEvent, SyscallEventWire } from "./schema.ts";

export const STEPS = "steps.jsonl";
export const JOURNAL = "step.journal";
export const EVENTS = "events.jsonl";
export const INBOX = "inbox.jsonl";
export const INFO = "proc-info.json";
export const META = "process-meta.json";
export const SPILL = "spill";
export const UNITS = "units.jsonl";
export const UNIT_OUTPUT = "units";

/** Returns the text of a proc-info.json in this data folder, without the fields that reading adds. */
export function sealedInfo(
  info: ProcInfo,
  dataDir: string,
  seal: RecordSeal,
  states: readonly StateEvent[] = [],
): string {
  const { foreign: _foreign, moved_from: _movedFrom, ...recorded } = info;
  return seal.seal(
    INFO,
    JSON.stringify({ ...recorded, data_dir: dataDir, ...(states.length > 0 && { states }) }),
  );
}

/** The logs with the events of the run, in the order in which they are read. */
export const LOGS = [STEPS, JOURNAL, INBOX, CHANGES, UNITS];

export function versioned(record: object): string {
  const json = JSON.stringify(record);
  return "v" in record ? json : `{"v":${SCHEMA_VERSION},${json.slice(1)}`;
}

/** A closed record is not written again without an entry in the journal. All others are looked at in each listing. */
export function isClosed({ ended_at_ms, state }: Pick<ProcInfo, "ended_at_ms" | "state">): boolean {
  return ended_at_ms !== null && (state === "dead" || state === "suspended");
}

const HEAD = /^\{"v":\d+,"n":(\d+),(?:"p":(\d+),)?/;
const HEAD_BYTES = 60;

/**
 * Returns the number of a line, and that of the line before it; undefined for a line of an older Rnix. A torn line has a
 * number, too.
 */
export function numberOf(line: Uint8Array | undefined): { n: number; p: number | undefined } | undefined {
  if (line === undefined) return undefined;
  const head = Buffer.from(line.buffer, line.byteOffset, Math.min(line.length, HEAD_BYTES)).toString(
    "latin1",
  );
  const [, n, p] = HEAD.exec(head) ?? [];
  return n === undefined ? undefined : { n: Number(n), p: p === undefined ? undefined : Number(p) };
}

/** Numbers the lines of a run. It has one owner: the run's writer, or who has claimed the run. */
export class LineNumbers {
  #last: number;
  #ends: Map<string, number>;

  /** Continues after these last numbers, by file, and after `least`. */
  constructor(ends: ReadonlyMap<string, number> = new Map(), least = 0) {
    this.#ends = new Map(ends);
    this.#last = Math.max(least, ...ends.values());
  }

  get last(): number {
    return this.#last;
  }

  take(events = 1): number {
    this.#last += events;
    return this.#last;
  }

  /** Returns the line of a record whose last event has number `n`. `linked`: with the number of the line before it. */
  line(file: string, n: number | undefined, record: object, linked = true): object {
    const p = linked ? this.#ends.get(file) : undefined;
    if (n !== undefined) this.#ends.set(file, n);
    return { ...{ v: SCHEMA_VERSION, n, p }, ...record, n, p };
  }

  /** Calls `write`. If it fails, the numbers that it took are free again. */
  undoneOnFailure<T>(write: () => T): T {
    const [last, ends] = [this.#last, new Map(this.#ends)];
    try {
      return write();
    } catch (error) {
      this.#last = last;
      this.#ends = ends;
      throw error;
    }
  }
}

/** Changes that a record holds: the latest ones. */
const MAX_STATES = 100;

/** Returns the states with that of `info`, if it is another one. `next`: takes a number. */
export function withState(
  states: readonly StateEvent[],
  info: ProcInfo,
  next: () => number,
): readonly StateEvent[] {
  const last = states.at(-1);
  const state = stateOf(info, last);
  if (last?.pid === info.pid && (last.state === state || (state === "continued" && last.state !== "paused")))
    return states;
  const { pid, created_at_ms, ended_at_ms } = info;
  const at = state === "made" ? created_at_ms : (ended_at_ms ?? Date.now());
  return [...states, { n: next(), ts: new Date(at).toISOString(), t: "state" as const, state, pid }].slice(
    -MAX_STATES,
  );
}

function stateOf(info: ProcInfo, last: StateEvent | undefined): StateEvent["state"] {
  if (info.state === "suspended") return "suspended";
  if (info.ended_at_ms !== null) return "ended";
  if (info.is_paused) return "paused";
  if (last === undefined) return "made";
  return last.pid === info.pid ? "continued" : "resumed";
}

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
