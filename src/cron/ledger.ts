/** The ledger of a project's jobs: `cron/runs.jsonl` in its data folder. */

import { dirname, join } from "node:path";
import { z } from "zod";
import type { LedgerRow } from "../plugin/index.ts";
import { AppendLog } from "../store/files/append-log.ts";
import { makeFolder, replaceDocument, syncDirectory } from "../store/files/document.ts";
import { type FsPort, realFs } from "../store/files/fs-port.ts";
import { eachLine } from "../store/files/read-log.ts";
import { CRON } from "./cron-folder.ts";

/** Rows of the file at which old ones are left out, and how many of the newest stay. */
const MAX_LINES = 20_000;
const KEPT_ROWS = 8_000;
/** Of each job at least these stay, so that a rare job has a history beside a frequent one. */
const KEPT_PER_JOB = 50;

const BODY = new RegExp(`^${CRON}/hooks/[a-z0-9]+\\.body$`);

const DeliveryState = z.object({
  to: z.string(),
  state: z.enum(["due", "delivered", "failed"]),
  tries: z.number(),
  error: z.string().nullable(),
});

const Row = z.lazy(() =>
  z.object({
    v: z.literal(1),
    job: z.string(),
    job_id: z.string(),
    due: z.string(),
    state: z.enum(["due", "running", "ran", "failed", "parked", "skipped", "missed", "blocked"]),
    reason: z.string().nullable(),
    late_ms: z.number(),
    uuid: z.string().nullable(),
    started: z.string().nullable(),
    ended: z.string().nullable(),
    exit_code: z.number().nullable(),
    exit_reason: z.string().nullable(),
    tokens_used: z.number(),
    cost_usd: z.number().nullable(),
    attempt: z.number(),
    until: z.string().optional(),
    count: z.number().optional(),
    extra: z.literal(true).optional(),
    queued: z.literal(true).optional(),
    used_before: z.object({ tokens_used: z.number(), cost_usd: z.number().nullable() }).optional(),
    reserved: z.object({ tokens: z.number().nullable(), cost: z.number().nullable() }).optional(),
    not_before: z.string().optional(),
    cause: z.string().optional(),
    // A file that is read and removed: a ledger that came from elsewhere must not name another.
    body: z.string().regex(BODY).optional(),
    delivery: z.array(DeliveryState).optional(),
    result: z.string().optional(),
    answer: z.string().optional(),
  }),
);

/** Instants of a job up to this one are accounted for in rows that were left out since. */
const Floor = z.lazy(() => z.object({ v: z.literal(1), floor: z.record(z.string(), z.string()) }));

/** What the ledger knows of one job. */
interface JobRows {
  /** The latest row of each attempt, in the order in which they were first written. */
  rows: Map<string, LedgerRow>;
  /** Those with something left to do. */
  open: Map<string, LedgerRow>;
  /** Instants with a row. */
  dues: Set<string>;
  /** Rows of more than one instant. */
  ranges: Map<string, LedgerRow>;
  causes: Set<string>;
  /** The last instant of a clock. */
  lastDue: number;
  floor: number;
}

const NONE = Number.NEGATIVE_INFINITY;

/**
 * The ledger: a row for each due instant before anything is done for it, and a new row for each change. It has one writer,
 * the holder of the project's scheduler lock; others read it.
 */
export class Ledger {
  readonly path: string;
  /** Jobs whose runs have begun or changed; `StartedRuns` empties it. */
  readonly startedJobs = new Set<string>();
  readonly #dir: string;
  readonly #fs: FsPort;
  readonly #log: AppendLog;
  readonly #jobs = new Map<string, JobRows>();
  /** Jobs with open rows. */
  readonly #withOpen = new Set<string>();
  #lines = 0;
  /** The names of the file and its folder are durable. */
  #named = false;

  constructor(dataDir: string, fs: FsPort = realFs) {
    this.#dir = join(dataDir, CRON);
    this.path = join(this.#dir, "runs.jsonl");
    this.#fs = fs;
    this.#log = new AppendLog(this.path, "the ledger of the jobs", { fs, left: true });
  }

  /** Reads the file. Damaged lines are counted; the rows around them are whole. */
  async load(): Promise<{ damaged: number }> {
    this.#jobs.clear();
    this.#withOpen.clear();
    this.#lines = 0;
    let damaged = 0;
    await eachLine(this.#fs, this.path, ({ bytes }) => {
      if (bytes?.length === 0) return undefined;
      this.#lines++;
      if (!this.#read(bytes)) damaged++;
      return undefined;
    });
    return { damaged };
  }

  /** Appends rows, all or none. They survive a kill when this returns, and a power loss after the next `write`. */
  append(...rows: LedgerRow[]): void {
    if (rows.length === 0) return;
    makeFolder(this.#dir, this.#fs);
    this.#log.append(...rows.map((row) => JSON.stringify(row)));
    this.#lines += rows.length;
    for (const row of rows) this.#index(row);
  }

  /** Appends rows, all or none. They survive a power loss when this returns. */
  async write(...rows: LedgerRow[]): Promise<void> {
    if (rows.length === 0) return;
    this.append(...rows);
    await this.#log.sync();
    // Once, the names of the file and its folder.
    if (this.#named) return;
    await syncDirectory(this.#dir, this.#fs);
    await syncDirectory(dirname(this.#dir), this.#fs);
    this.#named = true;
  }

  /** Whether the instant has its row. */
  accounts(jobId: string, due: number): boolean {
    const job = this.#jobs.get(jobId);
    if (!job) return false;
    if (due <= job.floor || job.dues.has(new Date(due).toISOString())) return true;
    for (const { due: from, until } of job.ranges.values()) {
      if (until !== undefined && Date.parse(from) <= due && due <= Date.parse(until)) return true;
    }
    return false;
  }

  /** The first instant from `from` on without a row: two events of one millisecond are two instants. */
  freeInstant(jobId: string, from: number): number {
    let due = from;
    while (this.accounts(jobId, due)) due++;
    return due;
  }

  /** Whether an event, such as the delivery of a hook, has its row. */
  hasCause(jobId: string, cause: string): boolean {
    return this.#jobs.get(jobId)?.causes.has(cause) ?? false;
  }

  /** The last instant of the clock up to `now` that is accounted for; -Infinity when there is none. */
  lastDue(jobId: string, now: number): number {
    const job = this.#jobs.get(jobId);
    if (!job) return NONE;
    if (job.lastDue <= now) return Math.max(job.lastDue, job.floor);
    // The clock went back: rows of later instants do not count yet.
    const dues = [...job.rows.values()].filter(isOfClock).map((row) => Date.parse(row.until ?? row.due));
    return Math.max(Math.min(job.floor, now), ...dues.filter((due) => due <= now));
  }

  /** Rows with something left to do, of one job or of all. */
  open(jobId?: string): LedgerRow[] {
    const jobs = jobId === undefined ? this.#withOpen : [jobId];
    return [...jobs].flatMap((id) => [...(this.#jobs.get(id)?.open.values() ?? [])]);
  }

  isOpen(jobId: string): boolean {
    return this.#withOpen.has(jobId);
  }

  /** The latest row of each attempt of a job, oldest first. */
  rows(jobId: string): LedgerRow[] {
    return [...(this.#jobs.get(jobId)?.rows.values() ?? [])];
  }

  row(jobId: string, due: string, attempt: number): LedgerRow | undefined {
    return this.#jobs.get(jobId)?.rows.get(keyOf({ due, attempt }));
  }

  all(): LedgerRow[] {
    return [...this.#jobs.values()].flatMap(({ rows }) => [...rows.values()]);
  }

  /** The latest row of a job's newest instant. */
  last(jobId: string): LedgerRow | null {
    let last: LedgerRow | null = null;
    for (const row of this.#jobs.get(jobId)?.rows.values() ?? []) {
      if (last === null || byInstant(row, last) >= 0) last = row;
    }
    return last;
  }

  /** Leaves old rows out when the file is long. Unfinished rows and the newest of each job stay. */
  async compact(): Promise<void> {
    if (this.#lines < MAX_LINES) return;
    const newest = this.all().sort(byInstant).slice(-KEPT_ROWS);
    const kept = new Set(newest);
    const floor: Record<string, string> = {};
    for (const [id, job] of this.#jobs) {
      const rows = [...job.rows.values()].sort(byInstant);
      for (const row of rows.slice(-KEPT_PER_JOB)) kept.add(row);
      for (const row of rows) if (!isSettled(row)) kept.add(row);
      const left = rows.filter((row) => !kept.has(row));
      const ends = left.map((row) => Date.parse(row.until ?? row.due));
      const lowest = Math.max(job.floor, ...ends);
      if (lowest > NONE) floor[id] = new Date(lowest).toISOString();
    }
    const rows = this.all().filter((row) => kept.has(row));
    const lines = [JSON.stringify({ v: 1, floor }), ...rows.map((row) => JSON.stringify(row))];
    this.#log.close();
    await replaceDocument(this.path, `${lines.join("\n")}\n`, this.#fs);
    await this.load();
  }

  #read(bytes: Uint8Array | undefined): boolean {
    if (!bytes) return false;
    let value: unknown;
    try {
      value = JSON.parse(new TextDecoder().decode(bytes));
    } catch {
      return false; // Torn by a crash: its append failed, so nothing was done for it.
    }
    const row = Row.safeParse(value);
    if (row.success) {
      this.#index(row.data);
      return true;
    }
    const floor = Floor.safeParse(value);
    for (const [id, at] of Object.entries(floor.data?.floor ?? {})) this.#of(id).floor = Date.parse(at);
    return floor.success;
  }

  #index(row: LedgerRow): void {
    const job = this.#of(row.job_id);
    const key = keyOf(row);
    job.rows.set(key, row);
    if (row.started !== null) this.startedJobs.add(row.job_id);
    job.dues.add(row.due);
    if (row.cause !== undefined) job.causes.add(row.cause);
    if (row.until === undefined) job.ranges.delete(key);
    else job.ranges.set(key, row);
    if (isSettled(row)) job.open.delete(key);
    else job.open.set(key, row);
    if (job.open.size === 0) this.#withOpen.delete(row.job_id);
    else this.#withOpen.add(row.job_id);
    if (!isOfClock(row)) return;
    job.lastDue = Math.max(job.lastDue, Date.parse(row.until ?? row.due));
  }

  #of(id: string): JobRows {
    return this.#jobs.getOrInsertComputed(id, () => ({
      rows: new Map(),
      open: new Map(),
      ranges: new Map(),
      dues: new Set(),
      causes: new Set(),
      lastDue: NONE,
      floor: NONE,
    }));
  }
}

/** Nothing is left to do for the row. */
export function isSettled({ state, delivery = [] }: LedgerRow): boolean {
  return !["due", "running", "parked"].includes(state) && delivery.every((one) => one.state !== "due");
}

/** Its instant is one of the job's clock. */
export function isOfClock({ extra, cause }: LedgerRow): boolean {
  return !extra && cause === undefined;
}

function keyOf({ due, attempt }: Pick<LedgerRow, "due" | "attempt">): string {
  return `${due} ${attempt}`;
}

/** Compares rows by instant and attempt. */
export function byInstant(
  a: Pick<LedgerRow, "due" | "attempt">,
  b: Pick<LedgerRow, "due" | "attempt">,
): number {
  if (a.due === b.due) return a.attempt - b.attempt;
  return a.due < b.due ? -1 : 1;
}

/** Identifies an attempt among those of all jobs. */
export function attemptKey(row: Pick<LedgerRow, "job_id" | "due" | "attempt">): string {
  return `${row.job_id} ${keyOf(row)}`;
}
