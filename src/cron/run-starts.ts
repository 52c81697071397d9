/** Begins the runs of due rows. */

import { join } from "node:path";
import { messageOf } from "../lib/error-detail.ts";
import { Semaphore } from "../lib/semaphore.ts";
import { isoOf } from "../lib/time-zone.ts";
import { type LedgerRow, SyscallError } from "../plugin/index.ts";
import type { StoredJob } from "./job.ts";
import type { JobReview, ProjectPorts } from "./job-review.ts";
import { attemptKey, byInstant } from "./ledger.ts";
import { hasOwnData } from "./project-list.ts";
import { spentToday } from "./spending.ts";

/** Runs that are begun at the same time. */
const MAX_BEGINNING = 8;
/** The wait before a row is tried again: no process was free, or its decision could not be written. */
const RETRY_MS = 5000;

/** A live run, with the most that it may use. */
export interface LiveRun {
  row: LedgerRow;
  cap: { tokens: number | null; cost: number | null };
  /** Its record exists. */
  started?: boolean;
  /** Why it was ended by its schedule. */
  stopped?: string;
}

/** A row with the most that its run may use. */
export type CappedRow = LedgerRow & Pick<LiveRun, "cap">;

export interface RunPorts extends ProjectPorts {
  review: JobReview;
}

/**
 * Takes a due row through the gate to a run. The row `running` with the run's UUID is durable before the run begins, so
 * a crash at any point neither loses nor doubles it.
 */
export class RunStarts {
  readonly #ports: RunPorts;
  readonly #live: Map<string, LiveRun>;
  /** By attempt. */
  readonly #beginning = new Map<string, LiveRun>();
  /** Rows whose beginning could not be written, and until when they wait. */
  readonly #heldUntil = new Map<string, number>();
  readonly #slots = new Semaphore(MAX_BEGINNING);
  #closed = false;

  /** `live`: by UUID. A run is added as soon as the ledger has it, and removed if it could not begin. */
  constructor(ports: RunPorts, live: Map<string, LiveRun>) {
    this.#ports = ports;
    this.#live = live;
  }

  /** Rows are on their way to a run. */
  get isBusy(): boolean {
    return this.#beginning.size > 0;
  }

  /** The instants of a job that are live or begin. */
  liveOf(jobId: string): CappedRow[] {
    return [...this.#live.values(), ...this.#beginning.values()]
      .filter(({ row }) => row.job_id === jobId)
      .map(({ row, cap }) => ({ ...row, state: "running", cap }));
  }

  /** It is on its way, or could not be begun just now. */
  isBeginning(row: LedgerRow): boolean {
    const key = attemptKey(row);
    return this.#beginning.has(key) || (this.#heldUntil.get(key) ?? 0) > this.#ports.clock.now();
  }

  /** When a row is tried again that could not be begun. */
  nextRetry(now: number): number {
    let next = Number.POSITIVE_INFINITY;
    for (const [key, until] of this.#heldUntil) {
      if (until <= now) this.#heldUntil.delete(key);
      else next = Math.min(next, until);
    }
    return next;
  }

  /** Begins the run of a row that is not on its way yet. Rejects when the ledger could not be written. */
  async begin(row: LedgerRow): Promise<void> {
    const { job: find, ledger, clock, look } = this.#ports;
    const key = attemptKey(row);
    const job = find(row.job_id);
    const left = job && spentToday(job, ledger, this.liveOf(job.id), clock.now());
    const run: LiveRun = { row, cap: { tokens: left?.tokens ?? null, cost: left?.cost ?? null } };
    this.#beginning.set(key, run);
    try {
      await this.#slots.run(() => this.#begin(run));
    } catch (thrown) {
      this.#heldUntil.set(key, clock.now() + RETRY_MS);
      throw thrown;
    } finally {
      this.#beginning.delete(key);
      // Others may have waited for it.
      if (this.#beginning.size === 0 || ledger.open(row.job_id).some((one) => one.state === "due")) look();
    }
  }

  /** Begins nothing more: rows are left to the next daemon. */
  close(): void {
    this.#closed = true;
  }

  async #begin(run: LiveRun): Promise<void> {
    const { job: find, project } = this.#ports;
    const { row } = run;
    const job = find(row.job_id);
    if (!job || this.#closed) return;
    if (job.project !== project.dir && hasOwnData(project))
      return this.#failedToStart(job, row, fromElsewhere(job, project.dir));
    const gate = await this.#passGate(job, row);
    // The gate takes its time: the job may be another now.
    const now = find(row.job_id);
    if (!gate || this.#closed || !now || (now.state === "disabled" && !row.extra)) return;
    await this.#start(now, run, gate.input);
  }

  /** null: the row is settled. */
  async #passGate(job: StoredJob, row: LedgerRow): Promise<{ input?: string } | null> {
    if (job.if === undefined) return {};
    const result = await this.#ports
      .gate(job, job.if)
      .catch((thrown: unknown) => this.#failedToStart(job, row, thrown));
    if (!result || this.#closed) return null;
    const { exitCode, timedOut, output } = result;
    if (exitCode === 0 && !timedOut) return job.if_input ? { input: output } : {};
    const how = timedOut ? "did not end in time" : `ended with ${exitCode ?? "a signal"}`;
    await this.#ports.ledger.write({ ...row, state: "skipped", reason: `if: ${how}` });
    return null;
  }

  async #start(job: StoredJob, { row, cap }: LiveRun, input: string | undefined): Promise<void> {
    const { clock, ledger, project, review, start, change, look } = this.#ports;
    const conversation = job.continue ? ((await this.#ports.conversation?.(job)) ?? null) : null;
    const uuid = conversation?.uuid ?? this.#ports.uuid();
    const running: LedgerRow = {
      ...row,
      state: "running",
      uuid,
      started: isoOf(clock.now()),
      // Also of use to a later daemon, and while the run is parked.
      ...((cap.tokens !== null || cap.cost !== null) && { reserved: cap }),
      ...(conversation && {
        used_before: { tokens_used: conversation.tokensUsed, cost_usd: conversation.costUsd },
      }),
    };
    await ledger.write(running);
    const live: LiveRun = { row: running, cap };
    this.#live.set(uuid, live);
    try {
      if (job.continue && job.conversation !== uuid)
        await change(job.id, (one) => Object.assign(one, { conversation: uuid }));
      await start({
        job,
        row: running,
        uuid,
        resumes: conversation !== null,
        input,
        ...(row.body !== undefined && { bodyFile: join(project.dataDir, row.body) }),
        maxTokens: cap.tokens,
        maxCost: cap.cost,
        passed: job.continue ? this.#passedSince(job, row) : [],
      });
    } catch (thrown) {
      this.#live.delete(uuid);
      return this.#failedToStart(job, row, thrown);
    }
    live.started = true;
    ledger.startedJobs.add(job.id);
    look();
    await review.began(job);
  }

  /** Blocks the job, unless the daemon stops: then the next one finds no record of the run, and begins it. */
  async #failedToStart(job: StoredJob, row: LedgerRow, thrown: unknown): Promise<void> {
    const { clock, ledger, log, review } = this.#ports;
    const code = thrown instanceof SyscallError ? thrown.code : "INTERNAL";
    const reason = messageOf(thrown);
    if (this.#closed || code === "CLOSED" || code === "CANCELLED") return;
    if (code === "EXHAUSTED") {
      const not_before = isoOf(clock.now() + RETRY_MS);
      return ledger.write({ ...row, state: "due", queued: true, not_before });
    }
    log("warn", `job ${job.name}`, `its run of ${row.due} could not begin: ${reason}`);
    const blocked: LedgerRow = { ...row, state: "blocked", reason, ended: isoOf(clock.now()) };
    await ledger.write(blocked);
    await review.blocked(job, blocked, reason);
  }

  /** Rows in which nothing ran since the conversation was last resumed. */
  #passedSince(job: StoredJob, row: LedgerRow): LedgerRow[] {
    const rows = this.#ports.ledger.rows(job.id).sort(byInstant);
    const before = rows.filter((one) => one.due < row.due);
    return before.slice(before.findLastIndex((one) => one.state === "ran") + 1);
  }
}

/** The folder was copied or moved with its jobs: the original still runs them, or its folders are gone. */
function fromElsewhere({ name, project }: StoredJob, dir: string): SyscallError {
  const message = `The job was made in ${project}, and its files came to ${dir} later. \`rnix cron enable ${name}\` there takes it over; \`rnix cron remove ${name}\` removes it.`;
  return new SyscallError("INVALID", message);
}
