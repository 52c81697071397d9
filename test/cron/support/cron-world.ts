/** A scheduler with a clock that is moved by hand, and runs that only take time. */

import type { StoredJob } from "../../../src/cron/job.ts";
import { JobFile } from "../../../src/cron/job-file.ts";
import { Ledger } from "../../../src/cron/ledger.ts";
import type {
  GateResult,
  JobEvent,
  RunOutcome,
  RunStart,
  SchedulerPorts,
  SharedBudget,
} from "../../../src/cron/ports.ts";
import { Scheduler } from "../../../src/cron/scheduler.ts";
import { isClockTrigger, timetableOf } from "../../../src/cron/timetable.ts";
import { isoOf } from "../../../src/lib/time-zone.ts";
import { type LedgerRow, SyscallError } from "../../../src/plugin/index.ts";
import { type FsPort, realFs } from "../../../src/store/files/fs-port.ts";
import { RecordKey } from "../../../src/store/runs/record-key.ts";
import { FakeClock } from "../../support/fake-clock.ts";

/** The record of a run, which outlives the scheduler. */
interface RunRecord {
  uuid: string;
  job: string;
  due: string;
  attempt: number;
  at: number;
  outcome: RunOutcome;
}

export const LIVE: RunOutcome = {
  state: "live",
  exitCode: null,
  exitReason: null,
  error: null,
  result: null,
  tokensUsed: 0,
  costUsd: null,
  endedAt: null,
  repeatable: true,
  filesChanged: [],
};

export interface WorldOptions {
  dir: string;
  /** The project's own by default. */
  dataDir?: string;
  at?: string;
  fs?: FsPort;
  maxWaitMs?: number;
}

/** Syncs cost nothing: the tests of a year have thousands. */
export const quickFs: FsPort = {
  ...realFs,
  fdatasync: async () => undefined,
  fsync: async () => undefined,
};

export class CronWorld {
  readonly clock: FakeClock;
  readonly records = new Map<string, RunRecord>();
  readonly events: (Pick<JobEvent, "event" | "reason"> & { job: string })[] = [];
  /** How long a run takes, and how it ends. */
  takes: (start: RunStart) => { ms: number; end?: Partial<RunOutcome> } = () => ({ ms: 60_000 });
  gate: (job: StoredJob) => GateResult = () => ({ exitCode: 0, timedOut: false, output: "" });
  /** Throws what a start fails with. */
  refuses: (start: RunStart) => void = () => undefined;
  deliver: SchedulerPorts["deliver"];
  listen: SchedulerPorts["listen"];
  /** Ends a run at once, unless a test replaces it. */
  endRun: SchedulerPorts["stop"] = async (uuid) => this.end(uuid, { exitCode: 1, exitReason: "terminated" });
  agentBudget: SharedBudget = { tokens_used: 0, tokens: null };
  readonly starts: RunStart[] = [];
  readonly project: { id: string; dir: string; dataDir: string };
  readonly logged: string[] = [];
  fs: FsPort;
  scheduler: Scheduler | undefined;
  readonly #o: WorldOptions;
  readonly #seal = RecordKey.temporary().sealOf("cron");
  #locked = false;
  #ids = 0;

  constructor(o: WorldOptions) {
    this.#o = o;
    this.clock = new FakeClock(Date.parse(o.at ?? "2026-01-01T00:00:00Z"));
    this.fs = o.fs ?? quickFs;
    this.project = { id: "p", dir: o.dir, dataDir: o.dataDir ?? `${o.dir}/.rnix/data` };
  }

  jobs(): JobFile {
    return new JobFile(this.project.dataDir, {
      fs: this.fs,
      seal: this.#seal,
      userDataDir: `${this.project.dir}-user`,
      lock: async () => ({ release: () => undefined }),
    });
  }

  async add(change: Partial<StoredJob> = {}): Promise<StoredJob> {
    const now = isoOf(this.clock.now());
    const job: StoredJob = {
      name: "job",
      trigger: { cron: "0 */3 * * *", tz: "UTC" },
      intent: "do it",
      run: {},
      id: `id-${++this.#ids}`,
      project: this.project.dir,
      creator: { kind: "user" },
      state: "enabled",
      reason: null,
      created_at: now,
      since: now,
      ...change,
    };
    await this.jobs().change((list) => void list.jobs.push(job));
    return job;
  }

  async job(name = "job"): Promise<StoredJob | undefined> {
    return (await this.jobs().read()).jobs.find((one) => one.name === name);
  }

  async change(change: (job: StoredJob) => void, name = "job"): Promise<void> {
    await this.jobs().change((list) => {
      for (const job of list.jobs) if (job.name === name) change(job);
    });
    this.scheduler?.look();
    await this.scheduler?.idle();
  }

  /** Starts a daemon. Runs of the one before are live or have ended meanwhile. */
  async start(): Promise<Scheduler> {
    const ledger = new Ledger(this.project.dataDir, this.fs);
    const scheduler = new Scheduler(this.project, this.jobs(), ledger, this.ports());
    this.scheduler = scheduler;
    scheduler.look();
    await scheduler.idle();
    return scheduler;
  }

  async stop(): Promise<void> {
    await this.scheduler?.close();
    this.scheduler = undefined;
  }

  /** kill -9: nothing is written any more, and the lock is free. */
  async kill(): Promise<void> {
    const dead = this.scheduler;
    this.scheduler = undefined;
    this.#locked = false;
    await dead?.close().catch(() => undefined);
    this.#locked = false;
  }

  /** Lets time pass. */
  async pass(ms: number): Promise<void> {
    const until = this.clock.monotonic() + ms;
    for (;;) {
      await this.scheduler?.idle();
      const left = until - this.clock.monotonic();
      const [next = Number.POSITIVE_INFINITY] = this.clock.waits;
      if (next > left) break;
      await this.clock.advance(next);
    }
    await this.clock.advance(until - this.clock.monotonic());
    await this.scheduler?.idle();
  }

  rows(job?: string): LedgerRow[] {
    const rows = this.scheduler?.ledger.all() ?? [];
    return rows
      .filter((row) => job === undefined || row.job === job)
      .sort((a, b) => (a.due < b.due ? -1 : 1));
  }

  states(job?: string): string[] {
    return this.rows(job).map(({ state }) => state);
  }

  ports(): SchedulerPorts {
    const { clock } = this;
    return {
      clock,
      random: () => 0,
      uuid: () => `run-${++this.#ids}`,
      fs: this.fs,
      seal: this.#seal,
      userDataDir: `${this.project.dir}-user`,
      lock: async () => ({ release: () => undefined }),
      tryLock: () => {
        if (this.#locked) return null;
        this.#locked = true;
        return {
          release: () => {
            this.#locked = false;
          },
        };
      },
      preflight: async () => ({ problems: [] }),
      start: (start) => this.#run(start),
      outcome: async ({ uuid, due, attempt }) => {
        const found = this.records.get(uuid ?? "");
        return found && found.due === due && found.attempt === attempt ? found.outcome : null;
      },
      conversation: async ({ conversation }) => {
        const found = this.records.get(conversation ?? "")?.outcome;
        return found && conversation
          ? { uuid: conversation, tokensUsed: found.tokensUsed, costUsd: found.costUsd }
          : null;
      },
      stop: (uuid, reason) => this.endRun(uuid, reason),
      gate: async (job) => this.gate(job),
      agentBudget: () => this.agentBudget,
      notify: ({ event, reason, job }) => void this.events.push({ event, reason, job: job.name }),
      ...(this.deliver && { deliver: this.deliver }),
      ...(this.listen && { listen: this.listen }),
      maxWaitMs: this.#o.maxWaitMs ?? 10_000,
      log: (_level, _source, text) => void this.logged.push(text),
    };
  }

  /** The run ends now. */
  end(uuid: string, how: Partial<RunOutcome> = {}): void {
    const record = this.records.get(uuid);
    if (!record || record.outcome.state === "ended") return;
    const endedAt = this.clock.now();
    record.outcome = {
      ...LIVE,
      state: "ended",
      exitCode: 0,
      exitReason: "completed",
      endedAt,
      result: "done",
      ...how,
    };
    void this.scheduler?.changed(uuid);
  }

  async #run(start: RunStart): Promise<void> {
    this.refuses(start);
    const { uuid, row, job } = start;
    this.starts.push(start);
    this.records.set(uuid, {
      uuid,
      job: job.name,
      due: row.due,
      attempt: row.attempt,
      at: this.clock.now(),
      outcome: LIVE,
    });
    const { ms, end } = this.takes(start);
    if (ms < Number.POSITIVE_INFINITY) this.clock.timer(ms, () => this.end(uuid, end));
  }
}

/** What the ledger says of the instants of a job in a period. */
export interface Account {
  due: number;
  accounted: number;
  doubled: number;
  lost: number;
}

/** Compares the ledger and the runs with the instants that the clock has, computed apart from the scheduler. */
export function accountOf(world: CronWorld, job: StoredJob, until: number): Account {
  if (!isClockTrigger(job.trigger)) throw new SyscallError("INVALID", "Expected a job with a clock.");
  const table = timetableOf(job.trigger, Date.parse(job.created_at));
  const ledger = world.scheduler?.ledger;
  const account = { due: 0, accounted: 0, doubled: 0, lost: 0 };
  for (let at = table.next(Date.parse(job.since)); at !== null && at <= until; at = table.next(at)) {
    account.due++;
    if (ledger?.accounts(job.id, at)) account.accounted++;
    else account.lost++;
  }
  const seen = new Set<string>();
  for (const { row } of world.starts.filter((start) => start.job.id === job.id)) {
    const key = `${row.due} ${row.attempt}`;
    if (seen.has(key)) account.doubled++;
    seen.add(key);
  }
  return account;
}
