/** What the scheduler needs of the outside world. */

import type { Clock } from "../lib/clock.ts";
import type { DeliveryState, HookAddress, JobRequest, LedgerRow } from "../plugin/index.ts";
import type { FsPort } from "../store/files/fs-port.ts";
import type { JobRights, StoredJob } from "./job.ts";
import type { Seal } from "./job-file.ts";
import type { JobProject } from "./project-list.ts";

/** The process that uses the service `schedule`. */
export interface JobCaller {
  project: JobProject & { trusted: boolean };
  cwd: string;
  env: Readonly<Record<string, string>>;
  /** The run that calls; null for the user. */
  run: CallingRun | null;
}

export interface CallingRun {
  uuid: string;
  agent: string;
  /** The job that it, or an ancestor of it, belongs to. */
  jobId: string | null;
  rights: JobRights;
  /** What its jobs have, unless they name others. */
  model: { provider: string; model: string } | null;
}

/** One attempt that is to begin. */
export interface RunStart {
  job: StoredJob;
  row: LedgerRow;
  /** The run's UUID, already in the ledger. With `resumes` an existing run, else a new one. */
  uuid: string;
  resumes: boolean;
  /** Text attached to the intent: the gate's output. */
  input?: string;
  /** Absolute path of a file with the body of a hook's delivery. */
  bodyFile?: string;
  /** What the day leaves: the smaller of it and the run's own budget holds. */
  maxTokens: number | null;
  maxCost: number | null;
  /** Rows since its last run in which nothing ran, for a conversation. */
  passed: LedgerRow[];
}

export interface RunOutcome {
  state: "live" | "parked" | "waiting" | "ended";
  exitCode: number | null;
  exitReason: string | null;
  error: string | null;
  result: string | null;
  tokensUsed: number;
  costUsd: number | null;
  endedAt: number | null;
  /** No call was started that can't be repeated. */
  repeatable: boolean;
  /** Files that it changed, relative to the project or absolute; null: not all are known. */
  filesChanged: readonly string[] | null;
}

export interface JobEvents {
  /**
   * Resolves when the instant is durable; false: the same event has its row already. Nothing was written if it fails with
   * UNAVAILABLE, or with EXHAUSTED because too many events wait.
   */
  accept(event: Pick<LedgerRow, "cause" | "body">): Promise<boolean>;
  /** A run of the job is live. */
  isLive(): boolean;
}

/** Files that are watched, or an open hook. */
export interface EventSource {
  close(): void | Promise<void>;
  /** A run of the job has ended. Resolves when its changes are known: a later one is an event. Never rejects. */
  ranOver?(files: readonly string[] | null): Promise<void>;
  /** Work of the job beside its run, such as its gate: the files that change meanwhile are no event. */
  during?<T>(work: () => Promise<T>): Promise<T>;
}

/** What all jobs that runs made in a project share today. */
export interface SharedBudget {
  tokens_used: number;
  /** null: no limit. */
  tokens: number | null;
}

/** Something that its user wants to know of a job. */
export interface JobEvent {
  event: "failed" | "paused" | "blocked" | "silent";
  job: StoredJob;
  row: LedgerRow | null;
  reason: string;
}

export interface Preflight {
  /** Every reason why not. */
  problems: string[];
  /** What may be wrong, and is known at the first run. */
  warnings?: string[];
  /** What the run would have: the agent, provider and model that settings and defaults lead to. */
  resolved?: { agent: string; provider?: string; model?: string };
  /** The grace of a job that names none, in ms. */
  graceMs?: number;
}

export interface Conversation {
  uuid: string;
  tokensUsed: number;
  costUsd: number | null;
}

export interface GateResult {
  exitCode: number | null;
  timedOut: boolean;
  output: string;
}

export interface SchedulerPorts {
  clock: Clock;
  random(): number;
  uuid(): string;
  fs?: FsPort;
  seal: Seal;
  userDataDir: string;
  /** A lock that several kernels share. */
  lock(path: string): Promise<{ release(): void }>;
  /** null: another daemon holds it. */
  tryLock(path: string): { release(): void } | null;
  /** Checks whether a run of the job could begin now. Spends nothing. `caller`: who makes the job. */
  preflight(job: StoredJob, caller?: JobCaller): Promise<Preflight>;
  /**
   * Begins the run. Resolves when its record is on disk. Fails with EXHAUSTED where no process is free, and INVALID,
   * NOT_FOUND or UNAVAILABLE for a job that can't run.
   */
  start(start: RunStart): Promise<void>;
  /** Of the run of this row; null: there is no record of it, or the run has not begun this instant. */
  outcome(row: LedgerRow, project: JobProject): Promise<RunOutcome | null>;
  /** The conversation of a job with `continue`; null: a new one begins. */
  conversation?(job: StoredJob): Promise<Conversation | null>;
  stop(uuid: string, reason: string): Promise<void>;
  /** Runs the command of `if` in the job's folder. */
  gate(job: StoredJob, command: string): Promise<GateResult>;
  /** The kernel counts and enforces it. */
  agentBudget(project: JobProject): SharedBudget;
  notify(event: JobEvent): void;
  listen?(job: StoredJob, project: JobProject, events: JobEvents): EventSource;
  /** Delivers the answer of a run; throws when it was not accepted. */
  deliver?(job: StoredJob, row: LedgerRow, delivery: DeliveryState): Promise<void>;
  /** The longest wait between two looks at the clock, by default 10 s: it may be set, or stop with the machine. */
  maxWaitMs?: number;
  log(level: "info" | "warn", source: string, text: string): void;
}

export interface SchedulesPorts extends SchedulerPorts {
  /** Where the events of a hook go in, for the user. */
  hookAddress?(project: JobProject, name: string): HookAddress;
  /** This kernel runs schedules: a daemon. */
  runs: boolean;
  /** What the caller asks for, with every default of its place filled in. Fails with INVALID or PERMISSION. */
  complete(request: JobRequest, caller: JobCaller): Promise<JobRequest>;
}
