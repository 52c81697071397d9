/** The jobs of all projects, as the service `schedule` offers them. */

import { type Timer, withTimeout } from "../lib/clock.ts";
import { formatDuration } from "../lib/duration.ts";
import { messageOf } from "../lib/error-detail.ts";
import { isoOf } from "../lib/time-zone.ts";
import {
  type AddedJob,
  type HookAddress,
  type JobInfo,
  type JobRequest,
  type LedgerRow,
  type NextInstants,
  type Schedule,
  SyscallError,
} from "../plugin/index.ts";
import { isScheduled, parseRequest, problemsOf, type StoredJob } from "./job.ts";
import { disableJob, enableJob, insertJob, jobNamed, requireNoCycle, withZone } from "./job-edits.ts";
import { JobFile } from "./job-file.ts";
import { byInstant, Ledger } from "./ledger.ts";
import type { JobCaller, SchedulesPorts } from "./ports.ts";
import { type JobProject, ProjectList } from "./project-list.ts";
import { requireMayAdd, requireMayChange, rightsOf } from "./run-made.ts";
import { Scheduler } from "./scheduler.ts";
import { isClockTrigger, timetableOf } from "./timetable.ts";

const SHOWN_NEXT = 5;
/** How often the list of projects is read again. */
const NEW_PROJECTS_MS = 30_000;
/** How long `run` waits until the run has begun. */
const RUN_MS = 10_000;
const MAX_HISTORY = 10_000;

/** One project's files. */
interface Opened {
  project: JobProject;
  jobs: JobFile;
  /** In a daemon. */
  scheduler: Scheduler | null;
}

/** The schedules of this user: the service `schedule` for each caller, and in a daemon the schedulers. */
export class Schedules {
  readonly #ports: SchedulesPorts;
  readonly #projects: ProjectList;
  readonly #opened = new Map<string, Opened>();
  #timer: Timer | undefined;
  #closed = false;

  constructor(ports: SchedulesPorts) {
    this.#ports = ports;
    this.#projects = new ProjectList(ports.userDataDir, ports);
  }

  /** The service, as this process sees it. */
  of(caller: JobCaller): Schedule {
    return {
      add: (job) => this.#add(job, caller),
      list: async (query) => {
        const scope = await this.#scope(caller, query?.all_projects);
        return (await Promise.all(scope.map((one) => this.#shown(one, caller)))).flat();
      },
      remove: (name) => this.#remove(name, caller),
      enable: (name) =>
        this.#change(name, caller, (job) =>
          enableJob(job, caller.project, caller.run, this.#ports.clock.now()),
        ),
      disable: (name) => this.#change(name, caller, (job) => disableJob(job, caller.run)),
      run: async (name) => this.#run(name, caller),
      history: (query) => this.#history(query, caller),
      next: (query) => this.#next(query, caller),
    };
  }

  /** In a daemon: runs the schedules of all projects that have jobs. */
  async start(): Promise<void> {
    if (!this.#ports.runs || this.#closed) return;
    try {
      for (const project of await this.#projects.read()) {
        if (!this.#closed) this.#open(project).scheduler?.look();
      }
    } catch (thrown) {
      this.#ports.log("warn", "schedules", messageOf(thrown));
    }
    // A command without this daemon may have added the first job of a project.
    if (!this.#closed) this.#timer = this.#ports.clock.timer(NEW_PROJECTS_MS, () => void this.start());
  }

  /** The daemon stays for its schedules. */
  get busy(): boolean {
    return [...this.#opened.values()].some(({ scheduler }) => scheduler?.busy);
  }

  /** A run of a job has ended, or was suspended or resumed. */
  async changed(uuid: string): Promise<void> {
    await Promise.all([...this.#opened.values()].map(({ scheduler }) => scheduler?.changed(uuid)));
  }

  async close(): Promise<void> {
    this.#closed = true;
    this.#timer?.cancel();
    await Promise.all([...this.#opened.values()].map(({ scheduler }) => scheduler?.close()));
  }

  async #add(request: JobRequest, caller: JobCaller): Promise<AddedJob> {
    const { clock, uuid } = this.#ports;
    const now = clock.now();
    const problems = problemsOf(request, now);
    if (problems.length > 0) throw invalidJob(request.name, problems);
    const { replace, ...fields } = parseRequest(await this.#ports.complete(parseRequest(request), caller));
    const { jobs } = this.#open(caller.project);
    const before = await jobs.read();
    const { run } = caller;
    const limits = run ? rightsOf(fields, run, before, now) : {};
    const job: StoredJob = {
      ...fields,
      trigger: withZone(fields.trigger, caller.env.TZ),
      ...limits,
      id: uuid(),
      project: caller.project.dir,
      creator: run ? { kind: "run", uuid: run.uuid, agent: run.agent } : { kind: "user" },
      state: "enabled",
      reason: null,
      created_at: isoOf(now),
      since: isoOf(now),
    };
    const preflight = await this.#ports.preflight(job, caller);
    const { resolved, graceMs, warnings: doubts = [] } = preflight;
    if (preflight.problems.length > 0) throw invalidJob(job.name, preflight.problems);
    // It stays what it is, whatever the settings become.
    job.run = { ...job.run, ...resolved };
    if (job.grace === undefined && graceMs !== undefined) job.grace = formatDuration(graceMs);
    // First the list: a project without jobs there costs nothing, one that is missing there never runs.
    await this.#projects.add(caller.project);
    const added = await jobs.change((list) => {
      requireMayAdd(job, list, caller, replace ?? false);
      requireNoCycle(job, list);
      return insertJob(job, list);
    });
    this.#open(caller.project).scheduler?.look();
    const shown = this.#info(added, caller.project, await this.#lastOf(caller.project, added.id), now);
    const early = isClockTrigger(job.trigger) ? timetableOf(job.trigger, now).warnings : [];
    return {
      job: { ...shown, ...this.#hookOf(added, caller) },
      next: nextInstants(added, now, SHOWN_NEXT),
      warnings: [...early, ...doubts],
    };
  }

  /** The secret of a hook is for the user. */
  #hookOf({ trigger, project: dir }: StoredJob, { project, run }: JobCaller): { hook?: HookAddress } {
    const { hookAddress } = this.#ports;
    if (run || !hookAddress || !("on_hook" in trigger) || dir !== project.dir) return {};
    return { hook: hookAddress(project, trigger.on_hook) };
  }

  async #remove(name: string, caller: JobCaller): Promise<JobInfo> {
    const { jobs, project, scheduler } = this.#open(caller.project);
    const now = this.#ports.clock.now();
    const job = await jobs.change((list) => {
      const job = jobNamed(name, list);
      requireMayChange(job, caller, "removed");
      list.jobs = list.jobs.filter((one) => one !== job);
      list.removed.push({ name, id: job.id, at: isoOf(now), by: caller.run ? "run" : "user" });
      return job;
    });
    scheduler?.look();
    const removed: StoredJob = { ...job, state: "disabled", reason: "removed" };
    return this.#info(removed, project, await this.#lastOf(project, job.id), now);
  }

  async #change(name: string, caller: JobCaller, change: (job: StoredJob) => void): Promise<JobInfo> {
    const { jobs, project, scheduler } = this.#open(caller.project);
    const job = await jobs.change((list) => {
      const job = jobNamed(name, list);
      requireMayChange(job, caller, "changed");
      change(job);
      return job;
    });
    await this.#projects.add(project);
    scheduler?.look();
    return this.#info(job, project, await this.#lastOf(project, job.id), this.#ports.clock.now());
  }

  async #run(name: string, caller: JobCaller): Promise<LedgerRow> {
    const { jobs, scheduler } = this.#open(caller.project);
    const job = jobNamed(name, await jobs.read());
    requireMayChange(job, caller, "run");
    if (!scheduler) {
      const message = `${name} can't run now: no daemon runs schedules here. Try again without --no-daemon.`;
      throw new SyscallError("UNAVAILABLE", message);
    }
    scheduler.look();
    await withTimeout(this.#ports.clock, RUN_MS, scheduler.idle());
    const row = await scheduler.accept(job, { extra: true });
    if (!row) throw new SyscallError("INTERNAL", "An instant of its own was there already.");
    await withTimeout(this.#ports.clock, RUN_MS, scheduler.idle());
    return scheduler.ledger.row(row.job_id, row.due, row.attempt) ?? row;
  }

  async #history(
    { name, since_ms, limit, all_projects }: Parameters<Schedule["history"]>[0],
    caller: JobCaller,
  ): Promise<LedgerRow[]> {
    const rows: LedgerRow[] = [];
    for (const project of await this.#scope(caller, all_projects)) {
      try {
        const ledger = await this.#ledger(project);
        rows.push(...ledger.all().filter((row) => name === undefined || row.job === name));
      } catch (thrown) {
        // Of all projects, those that can be read are shown; `list` names the others.
        if (project === caller.project) throw thrown;
        this.#ports.log("warn", `schedules of ${project.dir}`, messageOf(thrown));
      }
    }
    const from = since_ms === undefined ? "" : isoOf(since_ms);
    return rows
      .filter((row) => (row.ended ?? row.until ?? row.due) >= from)
      .sort(byInstant)
      .slice(-Math.min(Math.max(1, limit), MAX_HISTORY));
  }

  async #next(
    { name, expression, tz, count }: Parameters<Schedule["next"]>[0],
    caller: JobCaller,
  ): Promise<NextInstants> {
    const now = this.#ports.clock.now();
    if (name !== undefined) {
      const job = jobNamed(name, await this.#open(caller.project).jobs.read());
      const warnings = isClockTrigger(job.trigger) ? timetableOf(job.trigger, now).warnings : [];
      return { instants: nextInstants(job, now, count), warnings };
    }
    if (expression === undefined)
      throw new SyscallError("INVALID", "Expected the name of a job, or an expression.");
    const trigger = { cron: expression, ...(tz !== undefined && { tz }) };
    const instants = nextInstants({ trigger, created_at: isoOf(now) }, now, count);
    return { instants, warnings: timetableOf(trigger, now).warnings };
  }

  /** The projects that a query is about. Runs see their own only. */
  async #scope({ project, run }: JobCaller, all = false): Promise<JobProject[]> {
    if (!all || run) return [project];
    return this.#projects.read();
  }

  /** The jobs of a project. Another project that can't be read is shown as one blocked job. */
  async #shown(project: JobProject, caller: JobCaller): Promise<JobInfo[]> {
    const now = this.#ports.clock.now();
    try {
      const ledger = await this.#ledger(project);
      const { jobs } = await this.#open(project).jobs.read();
      return jobs.map((job) => ({
        ...this.#info(job, project, ledger.last(job.id), now),
        ...this.#hookOf(job, caller),
      }));
    } catch (thrown) {
      if (project === caller.project) throw thrown;
      return [unreadable(project, messageOf(thrown), now)];
    }
  }

  #info(job: StoredJob, project: JobProject, last: LedgerRow | null, now: number): JobInfo {
    const { rights: _, since: __, conversation: ___, silent: ____, held: _____, ...shown } = job;
    const [next = null] = isScheduled(job) ? nextInstants(job, now, 1) : [];
    const isOfRun = job.creator.kind === "run";
    return {
      ...shown,
      next_at: next,
      last,
      ...(isOfRun && { shared_budget: this.#ports.agentBudget(project) }),
    };
  }

  async #lastOf(project: JobProject, id: string): Promise<LedgerRow | null> {
    return (await this.#ledger(project)).last(id);
  }

  async #ledger({ dataDir }: JobProject): Promise<Ledger> {
    const scheduler = this.#opened.get(dataDir)?.scheduler;
    if (scheduler?.isReady) return scheduler.ledger;
    const ledger = new Ledger(dataDir, this.#ports.fs);
    await ledger.load();
    return ledger;
  }

  #open(project: JobProject): Opened {
    const { id, dir, dataDir } = project;
    return this.#opened.getOrInsertComputed(dataDir, () => {
      const { runs, fs } = this.#ports;
      const own = { id, dir, dataDir };
      const jobs = new JobFile(dataDir, this.#ports);
      const scheduler = runs ? new Scheduler(own, jobs, new Ledger(dataDir, fs), this.#ports) : null;
      return { project: own, jobs, scheduler };
    });
  }
}

/** Stands for the jobs of a project whose files can't be read, so that lists of all projects name it. */
function unreadable({ id, dir }: JobProject, reason: string, now: number): JobInfo {
  return {
    id,
    name: "(unreadable)",
    project: dir,
    state: "blocked",
    reason,
    trigger: { cron: "-" },
    intent: "-",
    run: {},
    creator: { kind: "user" },
    created_at: isoOf(now),
    next_at: null,
    last: null,
  };
}

function invalidJob(name: string, problems: readonly string[]): SyscallError {
  const message = `The job ${name} can't run:\n${problems.map((one) => `- ${one}`).join("\n")}`;
  return new SyscallError("INVALID", message);
}

/** Maximum instants that are computed for one answer. */
const MAX_NEXT = 1000;

/** The next instants of a job's clock; none for a job that waits for events. */
function nextInstants(
  job: Pick<StoredJob, "trigger" | "created_at" | "expires_at">,
  now: number,
  count: number,
): string[] {
  if (!isClockTrigger(job.trigger)) return [];
  const table = timetableOf(job.trigger, Date.parse(job.created_at));
  const instants: string[] = [];
  const most = Math.min(count, MAX_NEXT);
  for (let at = table.next(now); at !== null && instants.length < most; at = table.next(at))
    instants.push(isoOf(at));
  return instants;
}
