/** The runs of one project's jobs: begun, watched, ended, and what follows from their ends. */

import { join } from "node:path";
import { messageOf } from "../lib/error-detail.ts";
import { withTimeout } from "../lib/timeout.ts";
import { type LedgerRow, SyscallError } from "../plugin/index.ts";
import { realFs, removeLeftover } from "../store/files/fs-port.ts";
import { failuresInARow, retryOf } from "./decide.ts";
import { Deliveries } from "./deliveries.ts";
import { dueRow } from "./due.ts";
import { policiesOf, type StoredJob } from "./job.ts";
import { type Ledger, order } from "./ledger.ts";
import type { GateResult, RunOutcome, SchedulerPorts } from "./ports.ts";
import { hasOwnData, type JobProject } from "./project-list.ts";
import { endedRow, followOf, GONE, isDecided, useOf } from "./run-end.ts";
import { spentToday } from "./spending.ts";
import { isoOf } from "./timetable.ts";

/** Runs that are begun at the same time. */
const MAX_BEGINNING = 8;
/** The wait before an instant is tried again for which no process was free. */
const FULL_MS = 5000;
/** How often the record of a live run is read, beside the kernel's events. */
const WATCH_MS = 60_000;
/** How long a stop waits for what is being written. */
const CLOSE_MS = 2000;

interface RunsPorts extends SchedulerPorts {
  project: JobProject;
  ledger: Ledger;
  job(id: string): StoredJob | undefined;
  jobs(): readonly StoredJob[];
  change(id: string, change: (job: StoredJob) => void): Promise<void>;
  look(): void;
  /** A run of the job has ended, and changed these files. */
  ranOver(jobId: string, files: readonly string[] | null): void;
}

const UNLIMITED = { tokens: null, cost: null };

/** A live run, with the most that it may use. */
interface LiveRun {
  row: LedgerRow;
  cap: { tokens: number | null; cost: number | null };
  /** Its record exists. */
  started?: boolean;
  /** Why it was ended by its schedule. */
  stopped?: string;
}

export class Runs {
  readonly #ports: RunsPorts;
  /** By UUID. */
  readonly #live = new Map<string, LiveRun>();
  /** Rows on their way to a run, by job and instant. */
  readonly #beginning = new Map<string, LiveRun>();
  readonly #work = new Set<Promise<void>>();
  readonly #queue: (() => void)[] = [];
  /** Rows whose end is being written. */
  readonly #ending = new Map<string, Promise<void>>();
  readonly #deliveries: Deliveries;
  /** Rows that could not be begun, and until when they wait. */
  readonly #heldUntil = new Map<string, number>();
  #active = 0;
  #watchedAt = 0;
  #closed = false;

  constructor(ports: RunsPorts) {
    this.#ports = ports;
    this.#deliveries = new Deliveries(ports);
  }

  get size(): number {
    return this.#live.size + this.#beginning.size;
  }

  get beginning(): number {
    return this.#work.size;
  }

  async settled(): Promise<void> {
    while (this.#work.size > 0) await Promise.all(this.#work);
  }

  /** It is on its way, or could not be begun just now. */
  isBeginning(row: LedgerRow): boolean {
    const key = keyOf(row);
    return this.#beginning.has(key) || (this.#heldUntil.get(key) ?? 0) > this.#ports.clock.now();
  }

  /** The instants of a job that are live or begin. */
  liveOf(jobId: string): (LedgerRow & Pick<LiveRun, "cap">)[] {
    const all = [...this.#live.values(), ...this.#beginning.values()];
    return all
      .filter(({ row }) => row.job_id === jobId)
      .map(({ row, cap }) => ({ ...row, state: "running", cap }));
  }

  /** Takes over the rows that an earlier daemon has left. */
  async recover(): Promise<void> {
    const { ledger, project, outcome } = this.#ports;
    for (const row of ledger.open()) {
      if (row.state !== "running" || row.uuid === null) continue;
      const found = await outcome(row, project);
      if (found) this.#live.set(row.uuid, { row, cap: row.reserved ?? UNLIMITED, started: true });
      // It was accepted, and its run has not begun.
      else ledger.append({ ...row, state: "due", uuid: null, started: null, queued: true });
    }
    for (const uuid of [...this.#live.keys()]) await this.changed(uuid);
    for (const job of this.#ports.jobs()) await this.#reviewFailures(job);
  }

  /** Begins the run of a row, unless that is under way. */
  begin(row: LedgerRow): void {
    if (this.#closed || this.isBeginning(row)) return;
    const { job: find, ledger, clock } = this.#ports;
    const job = find(row.job_id);
    const left = job && spentToday(job, ledger, this.liveOf(job.id), clock.now());
    const entry: LiveRun = { row, cap: { tokens: left?.tokens ?? null, cost: left?.cost ?? null } };
    this.#beginning.set(keyOf(row), entry);
    this.#track(async () => {
      await this.#turn();
      try {
        await this.#begin(entry);
        this.#heldUntil.delete(keyOf(row));
      } catch (thrown) {
        // Such as a full disk: not again at once.
        this.#heldUntil.set(keyOf(row), clock.now() + FULL_MS);
        throw thrown;
      } finally {
        this.#beginning.delete(keyOf(row));
        this.#active--;
        this.#queue.shift()?.();
        // Others may have waited for it.
        if (this.#beginning.size === 0 || ledger.open(row.job_id).some((one) => one.state === "due"))
          this.#ports.look();
      }
    });
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

  /** A row was settled without a run. */
  passed(row: LedgerRow): void {
    if (row.state !== "due") this.#removeBody(row);
    if (row.state === "failed") this.#track(() => this.#reviewOf(row.job_id));
  }

  /** A run has ended, or was suspended or resumed. */
  async changed(uuid: string): Promise<void> {
    const entry = this.#live.get(uuid) ?? this.#parkedRun(uuid);
    if (!entry || this.#closed) return;
    const before = this.#ending.get(uuid);
    const work = (before ?? Promise.resolve()).then(() => this.#readOutcome(uuid, entry));
    this.#ending.set(uuid, work);
    this.#track(() =>
      work.finally(() => {
        if (this.#ending.get(uuid) === work) this.#ending.delete(uuid);
      }),
    );
    await work.catch(() => undefined); // Logged by #track.
  }

  /** Deadlines, and the records of runs whose end was not noticed. */
  async watch(now: number): Promise<void> {
    for (const live of this.#live.values()) {
      const job = this.#ports.job(live.row.job_id);
      const deadlineMs = job && policiesOf(job).deadlineMs;
      if (deadlineMs != null && now - Date.parse(live.row.due) >= deadlineMs)
        this.#stop(live, `its deadline has passed (${job?.deadline} after ${live.row.due})`);
    }
    this.#deliveries.look(now);
    if (now - this.#watchedAt < WATCH_MS && now >= this.#watchedAt) return;
    this.#watchedAt = now;
    const parked = this.#ports.ledger
      .open()
      .flatMap(({ state, uuid }) => (state === "parked" && uuid ? [uuid] : []));
    for (const uuid of [...this.#live.keys(), ...parked]) await this.changed(uuid);
  }

  /** When `watch` has something to do. */
  nextWatch(now: number): number {
    let next = this.#deliveries.next(now);
    for (const until of this.#heldUntil.values()) if (until > now) next = Math.min(next, until);
    for (const { row } of this.#live.values()) {
      const job = this.#ports.job(row.job_id);
      const deadlineMs = job && policiesOf(job).deadlineMs;
      const at = deadlineMs == null ? now : Date.parse(row.due) + deadlineMs;
      // One that has passed has ended the run; that may take its time.
      if (at > now) next = Math.min(next, at);
    }
    return next;
  }

  /** Waits for what is being written. Runs are left to the kernel, and their rows to the next daemon. */
  async close(): Promise<void> {
    this.#closed = true;
    for (const next of this.#queue.splice(0)) next();
    // A gate may take its time; what it decides is left to the next daemon.
    await withTimeout(this.#ports.clock, CLOSE_MS, this.settled());
    await this.#deliveries.close();
  }

  /** A run that waits for an answer holds no other instant up. */
  #parkedRun(uuid: string): LiveRun | undefined {
    const row = this.#ports.ledger.open().find((one) => one.uuid === uuid && one.state === "parked");
    return row && { row, cap: row.reserved ?? UNLIMITED };
  }

  async #begin(entry: LiveRun): Promise<void> {
    const { job: find, clock, ledger, uuid: newUuid } = this.#ports;
    const { row } = entry;
    if (this.#closed) return;
    let job = find(row.job_id);
    if (!job) return;
    const { project } = this.#ports;
    if (job.project !== project.dir && hasOwnData(project))
      return this.#failedToStart(job, row, fromElsewhere(job, project.dir));
    const gated = job.if === undefined ? { go: true as const } : await this.#gate(job, job.if, row);
    if (!gated.go || this.#closed) return;
    // The gate takes its time: the job may be another now.
    job = find(row.job_id);
    if (!job || (job.state === "disabled" && !row.extra)) return;
    const conversation = job.continue ? ((await this.#ports.conversation?.(job)) ?? null) : null;
    const uuid = conversation?.uuid ?? newUuid();
    const running: LedgerRow = {
      ...row,
      state: "running",
      uuid,
      started: isoOf(clock.now()),
      // Also of use to a later daemon, and while the run is parked.
      ...((entry.cap.tokens !== null || entry.cap.cost !== null) && { reserved: entry.cap }),
      ...(conversation && {
        used_before: { tokens_used: conversation.tokensUsed, cost_usd: conversation.costUsd },
      }),
    };
    ledger.append(running);
    await ledger.sync();
    const live: LiveRun = { ...entry, row: running };
    this.#live.set(uuid, live);
    try {
      if (job.continue && job.conversation !== uuid)
        await this.#ports.change(job.id, (one) => Object.assign(one, { conversation: uuid }));
      await this.#ports.start({
        job,
        row: running,
        uuid,
        resumes: conversation !== null,
        input: gated.input,
        ...(row.body !== undefined && { bodyFile: join(this.#ports.project.dataDir, row.body) }),
        maxTokens: entry.cap.tokens,
        maxCost: entry.cap.cost,
        passed: job.continue ? this.#passedSince(job, row) : [],
      });
      live.started = true;
      if (job.state === "blocked") await this.#ports.change(job.id, unblock);
    } catch (thrown) {
      this.#live.delete(uuid);
      await this.#failedToStart(job, row, thrown);
    }
  }

  /** Undefined: the row is settled. */
  async #gate(
    job: StoredJob,
    command: string,
    row: LedgerRow,
  ): Promise<{ go: true; input?: string } | { go: false }> {
    let gate: GateResult;
    try {
      gate = await this.#ports.gate(job, command);
    } catch (thrown) {
      await this.#failedToStart(job, row, thrown);
      return { go: false };
    }
    const { exitCode, timedOut, output } = gate;
    if (this.#closed) return { go: false };
    if (exitCode === 0 && !timedOut) return { go: true, ...(job.if_input && { input: output }) };
    const how = timedOut ? "did not end in time" : `ended with ${exitCode ?? "a signal"}`;
    await this.#write({ ...row, state: "skipped", reason: `if: ${how}` });
    return { go: false };
  }

  async #failedToStart(job: StoredJob, row: LedgerRow, thrown: unknown): Promise<void> {
    const { clock, log } = this.#ports;
    const code = thrown instanceof SyscallError ? thrown.code : "INTERNAL";
    const message = messageOf(thrown);
    // The daemon stops: the next one finds no record of the run, and begins it.
    if (this.#closed || code === "CLOSED" || code === "CANCELLED") return;
    if (code === "EXHAUSTED") {
      const not_before = isoOf(clock.now() + FULL_MS);
      return this.#write({ ...row, state: "due", queued: true, not_before });
    }
    log("warn", `job ${job.name}`, `its run of ${row.due} could not begin: ${message}`);
    await this.#block(job, row, message);
  }

  /** The job can't run as it is. It is tried again at its next instant, and its user is notified once. */
  async #block(job: StoredJob, row: LedgerRow, reason: string): Promise<void> {
    const blocked: LedgerRow = { ...row, state: "blocked", reason, ended: isoOf(this.#ports.clock.now()) };
    await this.#write(blocked);
    if (job.state === "blocked" && job.reason === reason) return;
    const isNew = job.state !== "blocked";
    await this.#ports.change(job.id, (one) => {
      if (one.state === "enabled" || one.state === "blocked")
        Object.assign(one, { state: "blocked", reason });
    });
    if (isNew) this.#ports.notify({ event: "blocked", job, row: blocked, reason });
  }

  async #readOutcome(uuid: string, entry: LiveRun): Promise<void> {
    const { ledger, outcome, project } = this.#ports;
    const row = ledger.row(entry.row.job_id, entry.row.due, entry.row.attempt);
    if (!row || (row.state !== "running" && row.state !== "parked")) return void this.#live.delete(uuid);
    const found = (await outcome(row, project)) ?? (entry.started ? GONE : null);
    if (!found || this.#closed) return;
    if (found.state === "live" || found.state === "waiting") {
      if (row.state === "parked") await this.#write({ ...row, state: "running", reason: null });
      if (!this.#live.has(uuid)) this.#live.set(uuid, { ...entry, row: { ...row, state: "running" } });
      return;
    }
    if (found.state === "parked") {
      this.#live.delete(uuid);
      if (row.state !== "parked")
        await this.#write({ ...row, ...useOf(row, found), state: "parked", reason: found.error });
      return this.#ports.look();
    }
    await this.#end(row, found, this.#live.get(uuid)?.stopped);
    this.#live.delete(uuid);
    this.#ports.look();
  }

  /** Writes the end of a run with all that follows from it, the end itself last. */
  async #end(row: LedgerRow, found: RunOutcome, stopped: string | undefined): Promise<void> {
    const { ledger, clock, random, job: find, jobs } = this.#ports;
    this.#ports.ranOver(row.job_id, found.filesChanged);
    const now = clock.now();
    const ended = endedRow(row, found, stopped, now);
    const succeeded = ended.state === "ran";
    const job = find(row.job_id);
    const rows: LedgerRow[] = [];
    const isRetryable = !succeeded && stopped === undefined && !isDecided(found);
    const retry =
      job && isRetryable && job.state !== "disabled"
        ? retryOf(ended, policiesOf(job), { now, repeatable: found.repeatable, random })
        : null;
    if (retry) {
      if (!ledger.row(retry.job_id, retry.due, retry.attempt)) rows.push(retry);
    } else {
      for (const next of jobs()) {
        const follows = followOf(next, job, ended);
        if (follows && !ledger.hasCause(next.id, follows)) {
          let due = now;
          while (ledger.accounts(next.id, due)) due++;
          rows.push(dueRow(next, due, { cause: follows, queued: true }));
        }
      }
      if (job) Object.assign(ended, this.#deliveries.of(job, ended));
    }
    ledger.append(...rows, ended);
    await ledger.sync();
    if (!retry) this.#removeBody(row);
    if (!job || retry) return;
    if (succeeded) {
      if (job.silent) await this.#ports.change(job.id, (one) => Object.assign(one, { silent: undefined }));
    } else this.#ports.notify({ event: "failed", job, row: ended, reason: ended.reason ?? "failed" });
    await this.#reviewFailures(job);
  }

  /** The run's record has it, or no run will. */
  #removeBody({ body }: LedgerRow): void {
    const { fs = realFs, project } = this.#ports;
    if (body !== undefined) removeLeftover(fs, join(project.dataDir, body));
  }

  async #reviewOf(jobId: string): Promise<void> {
    const job = this.#ports.job(jobId);
    if (job) await this.#reviewFailures(job);
  }

  /** Pauses a job that has failed too often in a row. */
  async #reviewFailures(job: StoredJob): Promise<void> {
    const { pauseAfter } = policiesOf(job);
    if (pauseAfter === 0 || job.state !== "enabled") return;
    const rows = this.#ports.ledger.rows(job.id);
    if (rows.some((row) => row.state === "due" && row.attempt > 1)) return;
    const failed = failuresInARow(rows, job.since);
    const [last] = failed;
    if (!last || failed.length < pauseAfter) return;
    const reason = `paused after ${failed.length} failures in a row, the last: ${last.reason ?? last.exit_reason}`;
    await this.#ports.change(job.id, (one) => {
      if (one.state === "enabled") Object.assign(one, { state: "paused", reason });
    });
    this.#ports.notify({ event: "paused", job, row: last, reason });
  }

  /** Rows in which nothing ran since the conversation was last resumed. */
  #passedSince(job: StoredJob, row: LedgerRow): LedgerRow[] {
    const rows = this.#ports.ledger.rows(job.id).sort((a, b) => order(a).localeCompare(order(b)));
    const before = rows.filter((one) => one.due < row.due);
    const last = before.findLastIndex((one) => one.state === "ran");
    return before.slice(last + 1);
  }

  async #write(row: LedgerRow): Promise<void> {
    this.#ports.ledger.append(row);
    await this.#ports.ledger.sync();
  }

  #stop(live: LiveRun, reason: string): void {
    if (live.stopped !== undefined || live.row.uuid === null) return;
    live.stopped = reason;
    const { uuid } = live.row;
    this.#track(async () => {
      try {
        await this.#ports.stop(uuid, reason);
      } catch (thrown) {
        live.stopped = undefined; // The next look tries again.
        throw thrown;
      }
      await this.changed(uuid);
    });
  }

  async #turn(): Promise<void> {
    if (this.#active >= MAX_BEGINNING) await new Promise<void>((resolve) => this.#queue.push(resolve));
    this.#active++;
  }

  /** A failure is logged: the row stays as it is on disk, and the next look tries again. */
  #track(work: () => Promise<void>): void {
    const done = work()
      .catch((thrown: unknown) =>
        this.#ports.log("warn", `schedules of ${this.#ports.project.dir}`, String(thrown)),
      )
      .finally(() => this.#work.delete(done));
    this.#work.add(done);
  }
}

/** The folder was copied or moved with its jobs: the original still runs them, or its folders are gone. */
function fromElsewhere({ name, project }: StoredJob, dir: string): SyscallError {
  return new SyscallError(
    "INVALID",
    `The job was made in ${project}, and its files came to ${dir} later. \`rnix cron enable ${name}\` there takes it over; \`rnix cron remove ${name}\` removes it.`,
  );
}

function unblock(job: StoredJob): void {
  if (job.state === "blocked") Object.assign(job, { state: "enabled", reason: null });
}

function keyOf({ job_id, due, attempt }: LedgerRow): string {
  return `${job_id} ${due} ${attempt}`;
}
