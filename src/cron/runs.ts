/** The runs of one project's jobs: begun, watched, ended, and what follows from their ends. */

import { join } from "node:path";
import { withTimeout } from "../lib/clock.ts";
import type { LedgerRow } from "../plugin/index.ts";
import { realFs, removeLeftover } from "../store/files/fs-port.ts";
import { retryOf } from "./decide.ts";
import { Deliveries } from "./deliveries.ts";
import { dueRow } from "./due.ts";
import { policiesOf, type StoredJob } from "./job.ts";
import type { RunOutcome } from "./ports.ts";
import { endedRow, followOf, GONE, isDecided, useOf } from "./run-end.ts";
import { type CappedRow, type LiveRun, type RunPorts, RunStarts } from "./run-starts.ts";

/** How often the record of a live run is read, beside the kernel's events. */
const WATCH_MS = 60_000;
/** How long a stop waits for what is being written. */
const CLOSE_MS = 2000;

interface RunsPorts extends RunPorts {
  /** A run of the job has ended, and changed these files. */
  ranOver(jobId: string, files: readonly string[] | null): Promise<void>;
}

const UNLIMITED = { tokens: null, cost: null };

export class Runs {
  readonly #ports: RunsPorts;
  readonly #starts: RunStarts;
  readonly #deliveries: Deliveries;
  /** By UUID. A parked run is not among them: it holds no other instant up. */
  readonly #live = new Map<string, LiveRun>();
  /** The last reading of a run's outcome under way, by UUID: they come one after the other. */
  readonly #reading = new Map<string, Promise<void>>();
  /** All that is under way. */
  readonly #work = new Set<Promise<void>>();
  #watchedAt = 0;
  #closed = false;

  constructor(ports: RunsPorts) {
    this.#ports = ports;
    this.#deliveries = new Deliveries(ports);
    this.#starts = new RunStarts(ports, this.#live);
  }

  /** Runs are live or begin. */
  get isBusy(): boolean {
    return this.#live.size > 0 || this.#starts.isBusy;
  }

  /** Something is under way beside the runs themselves. */
  get isWorking(): boolean {
    return this.#work.size > 0;
  }

  async settled(): Promise<void> {
    while (this.#work.size > 0) await Promise.all(this.#work);
  }

  /** It is on its way, or could not be begun just now. */
  isBeginning(row: LedgerRow): boolean {
    return this.#starts.isBeginning(row);
  }

  isBegun({ uuid }: LedgerRow): boolean {
    return uuid !== null && this.#live.get(uuid)?.started === true;
  }

  /** See `RunStarts`. */
  liveOf(jobId: string): CappedRow[] {
    return this.#starts.liveOf(jobId);
  }

  /** Takes over the rows that an earlier daemon has left. */
  async recover(): Promise<void> {
    const { ledger, project, outcome, jobs, review } = this.#ports;
    for (const row of ledger.open()) {
      if (row.state !== "running" || row.uuid === null) continue;
      const found = await outcome(row, project);
      if (found) this.#live.set(row.uuid, { row, cap: row.reserved ?? UNLIMITED, started: true });
      // It was accepted, and its run has not begun.
      else ledger.append({ ...row, state: "due", uuid: null, started: null, queued: true });
    }
    for (const uuid of [...this.#live.keys()]) await this.changed(uuid);
    for (const job of jobs()) await review.byFailures(job);
  }

  /** Begins the run of a row, unless that is under way. */
  begin(row: LedgerRow): void {
    if (!this.#closed && !this.isBeginning(row)) void this.#track(() => this.#starts.begin(row));
  }

  /** Ends the live runs of the row's job; the row begins when they are gone. */
  replace(row: LedgerRow): void {
    const { ledger } = this.#ports;
    if (ledger.row(row.job_id, row.due, row.attempt)?.queued !== true) ledger.append(row);
    const reason = `replaced by the run of ${row.due}`;
    for (const live of this.#live.values()) if (live.row.job_id === row.job_id) this.#stop(live, reason);
    for (const waiting of ledger.open(row.job_id)) {
      const isEarlier = waiting.state === "due" && waiting.due < row.due && !this.isBeginning(waiting);
      if (isEarlier) ledger.append({ ...waiting, state: waiting.attempt > 1 ? "failed" : "skipped", reason });
    }
  }

  /** A row was decided without a run. */
  passed(row: LedgerRow): void {
    if (row.state !== "due") this.#removeBody(row);
    const job = row.state === "failed" ? this.#ports.job(row.job_id) : undefined;
    if (job) void this.#track(() => this.#ports.review.byFailures(job));
  }

  /** A run has ended, or was suspended or resumed. */
  async changed(uuid: string): Promise<void> {
    const run = this.#live.get(uuid) ?? this.#parkedRun(uuid);
    if (!run || this.#closed) return;
    const before = this.#reading.get(uuid) ?? Promise.resolve();
    const reading = this.#track(async () => {
      await before;
      await this.#readOutcome(uuid, run);
    });
    this.#reading.set(uuid, reading);
    await reading;
    if (this.#reading.get(uuid) === reading) this.#reading.delete(uuid);
  }

  /** Deadlines, deliveries, and the records of runs whose end was not noticed. */
  async watch(now: number): Promise<void> {
    for (const live of this.#live.values()) {
      const { job, at } = this.#deadlineOf(live);
      if (at <= now) this.#stop(live, `its deadline has passed (${job?.deadline} after ${live.row.due})`);
    }
    this.#deliveries.look(now);
    if (now - this.#watchedAt < WATCH_MS && now >= this.#watchedAt) return;
    this.#watchedAt = now;
    const parked = this.#ports.ledger.open().filter(({ state }) => state === "parked");
    for (const uuid of [...this.#live.keys(), ...parked.flatMap((row) => row.uuid ?? [])])
      await this.changed(uuid);
  }

  /** When `watch` has something to do, or a row is tried again that could not be begun. */
  nextWatch(now: number): number {
    const deadlines = [...this.#live.values()].map((live) => this.#deadlineOf(live).at);
    // One that has passed has ended the run; that may take its time.
    const next = Math.min(...deadlines.filter((at) => at > now), this.#deliveries.next(now));
    return Math.min(next, this.#starts.nextRetry(now));
  }

  /** Waits for what is being written. Runs are left to the kernel, and their rows to the next daemon. */
  async close(): Promise<void> {
    this.#closed = true;
    this.#starts.close();
    // A gate may take its time; what it decides is left to the next daemon.
    await withTimeout(this.#ports.clock, CLOSE_MS, this.settled());
    await this.#deliveries.close();
  }

  #parkedRun(uuid: string): LiveRun | undefined {
    const row = this.#ports.ledger.open().find((one) => one.uuid === uuid && one.state === "parked");
    return row && { row, cap: row.reserved ?? UNLIMITED };
  }

  #deadlineOf({ row }: LiveRun): { job: StoredJob | undefined; at: number } {
    const job = this.#ports.job(row.job_id);
    const ms = job && policiesOf(job).deadlineMs;
    return { job, at: Date.parse(row.due) + (ms ?? Number.POSITIVE_INFINITY) };
  }

  async #readOutcome(uuid: string, run: LiveRun): Promise<void> {
    const { ledger, outcome, project, look } = this.#ports;
    const row = ledger.row(run.row.job_id, run.row.due, run.row.attempt);
    if (!row || (row.state !== "running" && row.state !== "parked")) return void this.#live.delete(uuid);
    const found = (await outcome(row, project)) ?? (run.started ? GONE : null);
    if (!found || this.#closed) return;
    if (found.state === "live" || found.state === "waiting") {
      if (row.state === "parked") await ledger.write({ ...row, state: "running", reason: null });
      if (!this.#live.has(uuid)) this.#live.set(uuid, { ...run, row: { ...row, state: "running" } });
      return;
    }
    if (found.state === "ended") await this.#end(row, found, this.#live.get(uuid)?.stopped);
    else if (row.state !== "parked")
      await ledger.write({ ...row, ...useOf(row, found), state: "parked", reason: found.error });
    this.#live.delete(uuid);
    look();
  }

  /** Writes the end of a run with all that follows from it, the end itself last. */
  async #end(row: LedgerRow, found: RunOutcome, stopped: string | undefined): Promise<void> {
    const { ledger, clock, random, job: find, notify, ranOver, review } = this.#ports;
    // First: a user who sees the end may change files at once.
    await ranOver(row.job_id, found.filesChanged);
    const now = clock.now();
    const ended = endedRow(row, found, stopped, now);
    const job = find(row.job_id);
    const mayRetry = ended.state !== "ran" && stopped === undefined && !isDecided(found);
    const retry =
      job && mayRetry && job.state !== "disabled"
        ? retryOf(ended, policiesOf(job), { now, repeatable: found.repeatable, random })
        : null;
    if (retry) {
      const isWritten = ledger.row(retry.job_id, retry.due, retry.attempt) !== undefined;
      return ledger.write(...(isWritten ? [] : [retry]), ended);
    }
    if (job) Object.assign(ended, this.#deliveries.of(job, ended));
    await ledger.write(...this.#followers(job, ended, now), ended);
    this.#removeBody(row);
    if (!job) return;
    if (ended.state === "ran") await review.succeeded(job);
    else notify({ event: "failed", job, row: ended, reason: ended.reason ?? "failed" });
    await review.byFailures(job);
  }

  #followers(job: StoredJob | undefined, ended: LedgerRow, now: number): LedgerRow[] {
    const { ledger, jobs } = this.#ports;
    return jobs().flatMap((next) => {
      const cause = followOf(next, job, ended);
      if (cause === null || ledger.hasCause(next.id, cause)) return [];
      return [dueRow(next, ledger.freeInstant(next.id, now), { cause, queued: true })];
    });
  }

  /** The run's record has it, or no run will. */
  #removeBody({ body }: LedgerRow): void {
    const { fs = realFs, project } = this.#ports;
    if (body !== undefined) removeLeftover(fs, join(project.dataDir, body));
  }

  #stop(live: LiveRun, reason: string): void {
    const { uuid } = live.row;
    if (live.stopped !== undefined || uuid === null) return;
    live.stopped = reason;
    void this.#track(async () => {
      try {
        await this.#ports.stop(uuid, reason);
      } catch (thrown) {
        live.stopped = undefined; // The next look tries again.
        throw thrown;
      }
      await this.changed(uuid);
    });
  }

  /** Never rejects. A failure is logged: the row stays as it is on disk, and the next look tries again. */
  #track(work: () => Promise<void>): Promise<void> {
    const done = work()
      .catch((thrown: unknown) =>
        this.#ports.log("warn", `schedules of ${this.#ports.project.dir}`, String(thrown)),
      )
      .finally(() => this.#work.delete(done));
    this.#work.add(done);
    return done;
  }
}
