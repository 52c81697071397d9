/** Changes the states of jobs by what their rows and the clock show. */

import { isoOf } from "../lib/time-zone.ts";
import type { LedgerRow } from "../plugin/index.ts";
import { failuresInARow } from "./decide.ts";
import { countedFrom } from "./due.ts";
import { isScheduled, policiesOf, type StoredJob } from "./job.ts";
import type { Ledger } from "./ledger.ts";
import type { SchedulerPorts } from "./ports.ts";
import type { JobProject } from "./project-list.ts";
import type { Timetables } from "./timetable.ts";

/** What the parts of one project's scheduler share. */
export interface ProjectPorts extends SchedulerPorts {
  project: JobProject;
  ledger: Ledger;
  timetables: Timetables;
  job(id: string): StoredJob | undefined;
  jobs(): readonly StoredJob[];
  /** Changes a job on disk, unless it was removed. */
  change(id: string, change: (job: StoredJob) => void): Promise<void>;
  /** Looks at the clock now: something has changed. */
  look(): void;
}

/** Blocks, pauses, finishes and frees jobs, and notifies their user. */
export class JobReview {
  readonly #ports: ProjectPorts;

  constructor(ports: ProjectPorts) {
    this.#ports = ports;
  }

  /** Finishes a job whose last instant has passed or that has expired, and notices one that is silent. */
  async byClock(job: StoredJob, now: number): Promise<void> {
    if (job.state === "done" || job.state === "disabled") return;
    const { ledger, timetables } = this.#ports;
    const { expiresAt, expectEveryMs } = policiesOf(job);
    if (!ledger.isOpen(job.id) && job.state !== "paused") {
      const over = timetables.of(job)?.next(Math.max(now, countedFrom(job, now))) === null;
      const expired = expiresAt !== null && expiresAt <= now;
      if (over || expired) {
        const reason = expired ? "it has expired" : "its last instant has passed";
        return this.#set(job, { state: "done", reason });
      }
    }
    if (expectEveryMs !== null && !job.silent) await this.#checkSilence(job, expectEveryMs, now);
  }

  async #checkSilence(job: StoredJob, expectEveryMs: number, now: number): Promise<void> {
    const rows = this.#ports.ledger.rows(job.id);
    const last = rows.findLast((row) => row.state === "ran");
    const since = Math.max(Date.parse(job.since), last?.ended ? Date.parse(last.ended) : 0);
    if (now - since < expectEveryMs) return;
    await this.#set(job, { silent: true });
    const reason = `no successful run since ${isoOf(since)}, expected every ${job.expect_every}`;
    this.#ports.notify({ event: "silent", job, row: rows.at(-1) ?? null, reason });
  }

  /** Pauses a job that has failed too often in a row. */
  async byFailures(job: StoredJob): Promise<void> {
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

  /** A run of the job could not begin. The next instant tries again, and the user is notified once. */
  async blocked(job: StoredJob, row: LedgerRow, reason: string): Promise<void> {
    if (job.state === "blocked" && job.reason === reason) return;
    await this.#ports.change(job.id, (one) => {
      if (isScheduled(one)) Object.assign(one, { state: "blocked", reason });
    });
    if (job.state !== "blocked") this.#ports.notify({ event: "blocked", job, row, reason });
  }

  /** A run of the job has begun. */
  async began(job: StoredJob): Promise<void> {
    if (job.state !== "blocked") return;
    await this.#ports.change(job.id, (one) => {
      if (one.state === "blocked") Object.assign(one, { state: "enabled", reason: null });
    });
  }

  async succeeded(job: StoredJob): Promise<void> {
    if (job.silent) await this.#set(job, { silent: undefined });
  }

  #set({ id }: StoredJob, values: Partial<StoredJob>): Promise<void> {
    return this.#ports.change(id, (one) => Object.assign(one, values));
  }
}
