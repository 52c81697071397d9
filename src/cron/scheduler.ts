/** The scheduler of one project: from due instants to ledger rows, runs and their ends. */

import { join } from "node:path";
import type { Timer } from "../lib/clock.ts";
import { messageOf } from "../lib/error-detail.ts";
import { isoOf } from "../lib/time-zone.ts";
import { type LedgerRow, SyscallError } from "../plugin/index.ts";
import { type FsPort, realFs } from "../store/files/fs-port.ts";
import { CRON } from "./cron-folder.ts";
import { type Decision, decide, MAX_QUEUED, startedTooOften } from "./decide.ts";
import { countedFrom, dueRow, dueRows, latestMissed, SET_BACK_MS, waitAgain } from "./due.ts";
import { isScheduled, policiesOf, type StoredJob } from "./job.ts";
import type { JobFile, JobList } from "./job-file.ts";
import { JobReview, type ProjectPorts } from "./job-review.ts";
import { byInstant, type Ledger } from "./ledger.ts";
import type { SchedulerPorts } from "./ports.ts";
import type { JobProject } from "./project-list.ts";
import { sharedBudgetOver } from "./run-made.ts";
import { Runs } from "./runs.ts";
import { spentToday } from "./spending.ts";
import { StartedRuns } from "./started-runs.ts";
import { Timetables } from "./timetable.ts";
import { Triggers } from "./triggers.ts";

/** The longest wait between two looks: the clock may be set, or stop while the machine sleeps. */
const MAX_WAIT_MS = 10_000;
/** Between two tries to become the scheduler of a project that another daemon has. */
const LOCK_RETRY_MS = 10_000;

/**
 * One project's scheduler. Exactly one daemon is: it holds the project's scheduler lock. Each look at the clock first
 * writes a row for every due instant, and only then decides about them; so a crash at any point loses and doubles none.
 */
export class Scheduler {
  readonly project: JobProject;
  readonly ledger: Ledger;
  readonly #ports: SchedulerPorts;
  readonly #jobs: JobFile;
  readonly #runs: Runs;
  readonly #triggers: Triggers;
  readonly #review: JobReview;
  readonly #started: StartedRuns;
  readonly #timetables = new Timetables();
  readonly #fs: FsPort;
  #list: JobList = { v: 1, jobs: [], removed: [] };
  #byId = new Map<string, StoredJob>();
  #lock: { release(): void } | null = null;
  #lockRetryAt = 0;
  #loaded = false;
  /** The latest time that was seen; undefined before the first look. */
  #newest: number | undefined;
  #timer: Timer | undefined;
  #looking: Promise<void> | undefined;
  #again = false;
  #closed = false;
  /** The last fault: it is logged once, not at each look. */
  #warned = "";

  constructor(project: JobProject, jobs: JobFile, ledger: Ledger, ports: SchedulerPorts) {
    this.project = project;
    this.ledger = ledger;
    this.#jobs = jobs;
    this.#ports = ports;
    this.#fs = ports.fs ?? realFs;
    this.#started = new StartedRuns(ports.userDataDir, project.dataDir, this.#fs);
    const shared: ProjectPorts = {
      ...ports,
      project,
      ledger,
      timetables: this.#timetables,
      job: (id) => this.#byId.get(id),
      jobs: () => this.#list.jobs,
      change: async (id, change) => {
        await jobs.change((list) => {
          const job = list.jobs.find((one) => one.id === id);
          if (job) change(job);
        });
        await this.#readJobs();
      },
      look: () => this.look(),
    };
    this.#review = new JobReview(shared);
    this.#runs = new Runs({
      ...shared,
      review: this.#review,
      ranOver: (id, files) => this.#triggers.ranOver(id, files),
      // What they write into watched folders would start the job again, without end.
      gate: async (job, command) => this.#triggers.during(job.id, () => ports.gate(job, command)),
      deliver:
        ports.deliver &&
        ((job, ...rest) => this.#triggers.during(job.id, async () => ports.deliver?.(job, ...rest))),
    });
    this.#triggers = new Triggers({
      ...shared,
      accept: async (id, more) => {
        const job = this.#byId.get(id);
        return job !== undefined && (await this.accept(job, more)) !== null;
      },
      isLive: (id) => this.#runs.liveOf(id).length > 0,
    });
  }

  /** This daemon runs the project's schedules: its ledger is in memory and complete. */
  get isReady(): boolean {
    return this.#lock !== null && this.#loaded;
  }

  /** The daemon stays for it: something may become due, or is live. */
  get busy(): boolean {
    return this.#list.jobs.some(isScheduled) || this.#runs.isBusy || this.ledger.open().length > 0;
  }

  /** Looks at the clock now: jobs have changed, a run has ended. */
  look(): void {
    if (this.#closed) return;
    if (this.#looking) {
      this.#again = true;
      return;
    }
    this.#timer?.cancel();
    this.#looking = this.#lookUntilDone().finally(() => {
      this.#looking = undefined;
      this.#arm();
    });
  }

  /** Resolves when nothing is under way but runs. For tests, and for the answer to `run`. */
  async idle(): Promise<void> {
    while (this.#looking || this.#runs.isWorking) {
      await this.#looking;
      await this.#runs.settled();
    }
  }

  /** A run has ended, was suspended or was resumed. */
  async changed(uuid: string): Promise<void> {
    if (this.#lock) await this.#runs.changed(uuid);
  }

  /**
   * Adds one instant that no clock has. It is durable when this returns; null: it was there already. Fails with EXHAUSTED
   * for an event when too many of the job wait.
   */
  async accept(job: StoredJob, more: Partial<LedgerRow>): Promise<LedgerRow | null> {
    if (!this.isReady) {
      const message = `Another daemon runs the schedules of ${this.project.dir}, or they are still being read. Try again in a moment.`;
      throw new SyscallError("UNAVAILABLE", message);
    }
    if (more.cause !== undefined && this.ledger.hasCause(job.id, more.cause)) return null;
    const waiting = this.ledger.open(job.id).filter(({ state, attempt }) => state === "due" && attempt === 1);
    if (more.cause !== undefined && waiting.length >= MAX_QUEUED)
      throw new SyscallError("EXHAUSTED", `${MAX_QUEUED} events of the job ${job.name} wait for their runs.`);
    const row = dueRow(job, this.ledger.freeInstant(job.id, this.#ports.clock.now()), more);
    await this.ledger.write(row);
    this.look();
    return row;
  }

  async close(): Promise<void> {
    this.#closed = true;
    this.#timer?.cancel();
    this.#timer = undefined;
    await this.#triggers.close();
    await this.#looking;
    await this.#runs.close();
    this.#lock?.release();
    this.#lock = null;
  }

  async #lookUntilDone(): Promise<void> {
    do {
      this.#again = false;
      try {
        if (await this.#isOurs()) await this.#lookOnce();
        this.#warned = "";
      } catch (thrown) {
        // A broken disk or file: the next look tries again, and nothing is lost because nothing was written.
        const text = messageOf(thrown);
        if (text !== this.#warned) this.#warn(text);
        this.#warned = text;
        return;
      }
    } while (this.#again && !this.#closed);
  }

  async #isOurs(): Promise<boolean> {
    await this.#readJobs();
    if (!this.#lock) {
      const { clock, tryLock } = this.#ports;
      if (clock.monotonic() < this.#lockRetryAt) return false;
      if (this.#list.jobs.length === 0 && this.#fs.stat(this.ledger.path) === null) return false;
      this.#lockRetryAt = clock.monotonic() + LOCK_RETRY_MS;
      this.#lock = tryLock(join(this.project.dataDir, CRON, "scheduler.lock"));
      if (!this.#lock) return false;
    }
    if (this.#loaded) return true;
    const { damaged } = await this.ledger.load();
    if (damaged > 0)
      this.#warn(`${damaged} lines of ${this.ledger.path} are damaged; the instants around them are whole`);
    const missing = await this.#started.missing(this.ledger, this.#list.jobs);
    if (missing.length > 0)
      this.#warn(`rows were removed from ${this.ledger.path}: their instants do not start again`);
    await this.ledger.write(...missing);
    await this.#runs.recover();
    this.#loaded = true;
    return true;
  }

  async #lookOnce(): Promise<void> {
    const now = this.#ports.clock.now();
    await this.#checkClock(now);
    const rows: LedgerRow[] = [];
    for (const job of this.#list.jobs) rows.push(...(await this.#due(job, now)));
    await this.ledger.write(...rows);
    this.#triggers.update(this.#list.jobs);
    await this.#decide(now);
    await this.#runs.watch(now);
    await this.#started.save(this.ledger, this.#list.jobs, (row) => this.#runs.isBegun(row));
    for (const job of this.#list.jobs) await this.#review.byClock(job, now);
    await this.ledger.compact();
  }

  async #due(job: StoredJob, now: number): Promise<LedgerRow[]> {
    const table = isScheduled(job) ? this.#timetables.of(job) : undefined;
    if (!table) return [];
    const after = Math.max(countedFrom(job, now), this.ledger.lastDue(job.id, now));
    const next = table.next(after);
    if (next === null || next > now) return [];
    const isAccounted = (due: number): boolean => this.ledger.accounts(job.id, due);
    return dueRows(job, table, { after, now, isAccounted });
  }

  /** Decides the due rows of each job, writes the decisions, then begins runs. */
  async #decide(now: number): Promise<void> {
    const byJob = Map.groupBy(
      this.ledger.open().filter((row) => row.state === "due" && !this.#runs.isBeginning(row)),
      (row) => row.job_id,
    );
    const decisions: Decision[] = [];
    for (const [id, rows] of byJob) {
      const job = this.#byId.get(id);
      rows.sort(byInstant);
      const live = this.#runs.liveOf(id);
      const retries = rows.filter((row) => row.attempt > 1);
      const spent = job ? this.#spent(job, live, now) : null;
      const tooOften = job ? startedTooOften(job, this.ledger.rows(id), now) : null;
      const policies = job && policiesOf(job);
      decisions.push(...decide(rows, { now, job, policies, live: [...live, ...retries], spent, tooOften }));
    }
    const written = decisions.flatMap((one) => (one.do === "write" ? [one.row] : []));
    await this.ledger.write(...written);
    for (const row of written) this.#runs.passed(row);
    for (const decision of decisions) {
      if (decision.do === "begin") this.#runs.begin(decision.row);
      if (decision.do === "replace") this.#runs.replace(decision.row);
    }
  }

  /** Why no run of the job may begin today; null: it may. */
  #spent(job: StoredJob, live: Parameters<typeof spentToday>[2], now: number): string | null {
    const { over } = spentToday(job, this.ledger, live, now);
    if (over !== null || job.creator.kind === "user") return over;
    return sharedBudgetOver(this.#ports.agentBudget(this.project));
  }

  /** Instants that a clock set ahead has passed over wait for their time again. */
  async #checkClock(now: number): Promise<void> {
    const wasAt = this.#newest ?? latestMissed(this.ledger.all());
    const isSetBack = wasAt > now + SET_BACK_MS;
    this.#newest = isSetBack ? now : Math.max(now, this.#newest ?? now);
    if (!isSetBack) return;
    this.#warn(`the clock was set back to ${isoOf(now)}`);
    const countOf = (id: string, from: number, until: number): number => {
      const job = this.#byId.get(id);
      const table = job && this.#timetables.of(job);
      let count = 1;
      for (let at = table?.next(from) ?? null; at !== null && at <= until; at = table?.next(at) ?? null)
        count++;
      return count;
    };
    await this.ledger.write(...waitAgain(this.ledger.all(), now, countOf));
  }

  async #readJobs(): Promise<void> {
    const list = await this.#jobs.read();
    if (list === this.#list) return;
    this.#list = list;
    this.#byId = new Map(list.jobs.map((job) => [job.id, job]));
  }

  #warn(text: string): void {
    this.#ports.log("warn", `schedules of ${this.project.dir}`, text);
  }

  /** Sets the timer for whatever comes first. */
  #arm(): void {
    if (this.#closed) return;
    const { clock, maxWaitMs = MAX_WAIT_MS } = this.#ports;
    const now = clock.now();
    let next = this.#runs.nextWatch(now);
    if (this.#lock) {
      for (const job of this.#list.jobs.filter(isScheduled)) {
        const after = Math.max(countedFrom(job, now), now);
        next = Math.min(next, this.#timetables.of(job)?.next(after) ?? next);
      }
      for (const row of this.ledger.open()) {
        // A row that is due already waits for the end of a run.
        const at = Date.parse(row.not_before ?? row.due);
        if (row.state === "due" && at > now) next = Math.min(next, at);
      }
    }
    const wait = Math.min(Math.max(0, next - now), maxWaitMs);
    this.#timer = clock.timer(wait, () => this.look());
  }
}
