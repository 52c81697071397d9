/** The service `schedule`: jobs, which start runs at times or after events. */

import type { JobOptions } from "./job-options.ts";

/**
 * Scheduled jobs. Names are unique in a project. Fails with NOT_FOUND for an unknown name, and with PERMISSION for a change
 * that the process may not make: inside a run, a job of the user or of another run.
 */
export interface Schedule {
  /**
   * Checks everything that a run of the job needs, then adds it. Fails with INVALID, naming every problem. `replace` edits
   * a job of this name; its history stays.
   */
  add(job: JobRequest): Promise<AddedJob>;
  list(query?: { all_projects?: boolean }): Promise<JobInfo[]>;
  remove(name: string): Promise<JobInfo>;
  /** Also resumes a paused, blocked or done job. Instants of the time in which it was not enabled are not made up for. */
  enable(name: string): Promise<JobInfo>;
  disable(name: string): Promise<JobInfo>;
  /** One extra instant, now. Fails with UNAVAILABLE where no daemon runs schedules. */
  run(name: string): Promise<LedgerRow>;
  /** The latest row of each attempt, newest last. */
  history(query: {
    name?: string;
    since_ms?: number;
    limit: number;
    all_projects?: boolean;
  }): Promise<LedgerRow[]>;
  /** The next instants of a job, or of an expression that no job has yet. */
  next(query: { name?: string; expression?: string; tz?: string; count: number }): Promise<NextInstants>;
}

/** A job as it is requested. Durations are texts such as `90s` or `1h30m`. */
export interface JobRequest extends JobOptions {
  /** Letters, digits, ".", "_" and "-". */
  name: string;
  trigger: JobTrigger;
  intent: string;
  /**
   * A spawn request without its intent, in snake_case as on the wire: agent, provider, model, max_cost, checks, … Here `env`
   * has only the variables given for the job, and `env_names` names those to take from the user's environment.
   */
  run: Record<string, unknown>;
  /** `max` further attempts, with growing waits between `from` and `to`. `safe`: also after calls that act. */
  retry?: { max: number; from: string; to: string; safe?: boolean };
  deliver?: JobDelivery[];
  replace?: boolean;
}

/** What makes an instant of a job. Times without an offset are in `tz`, by default the zone of this machine. */
export type JobTrigger =
  /** Five fields, six with seconds, or a name such as @daily. */
  | { cron: string; tz?: string }
  /** Counts from the job's creation. */
  | { every: string }
  /** Once: RFC 3339, or without an offset in `tz`. */
  | { at: string; tz?: string }
  /** Globs below the project's folder. `debounce`: how long the files must be unchanged, by default 2s. */
  | { on_change: string[]; debounce?: string }
  /** No run of the project has worked for this long; again once one has. */
  | { on_idle: string }
  /** A name: lines of a FIFO and POST requests. */
  | { on_hook: string }
  /** The end of another job's run. `on`: which end, by default success. */
  | { after: string; on?: "success" | "failure" | "any" };

export interface JobDelivery {
  /** A shell command, an address, or the absolute path of a file, behind `>>` to append to it. */
  to: string;
  when: "always" | "on-change" | "on-failure";
}

export interface JobInfo extends Omit<JobRequest, "replace"> {
  id: string;
  /** The project's folder. */
  project: string;
  creator: JobCreator;
  state: "enabled" | "disabled" | "paused" | "blocked" | "done";
  /** Why it is in this state; null for enabled. */
  reason: string | null;
  created_at: string;
  next_at: string | null;
  last: LedgerRow | null;
  /** Of a job that a run made: what all such jobs of the project have used today, and may; null: no limit. */
  shared_budget?: { tokens_used: number; tokens: number | null };
  /** Of a job with `on_hook`, for the user: where events are written or posted. */
  hook?: HookAddress;
}

export type JobCreator = { kind: "user" } | { kind: "run"; uuid: string; agent: string };

export interface HookAddress {
  /** Absolute. Each line that is written to it is an event. */
  fifo: string;
  /** POST with `Authorization: Bearer <secret>`; null where no daemon serves it. */
  url: string | null;
  secret: string;
}

export interface AddedJob {
  job: JobInfo;
  /** The next five instants. */
  next: string[];
  warnings: string[];
}

export interface NextInstants {
  /** RFC 3339, UTC. */
  instants: string[];
  /** Questions that the expression leaves open, such as both day fields set. */
  warnings: string[];
}

/** An attempt to run a job at one instant. */
export interface LedgerRow {
  v: 1;
  job: string;
  job_id: string;
  /** The instant: RFC 3339 with milliseconds, UTC. Unique in a job. */
  due: string;
  state: "due" | "running" | "ran" | "failed" | "parked" | "skipped" | "missed" | "blocked";
  reason: string | null;
  late_ms: number;
  uuid: string | null;
  started: string | null;
  ended: string | null;
  exit_code: number | null;
  exit_reason: string | null;
  /** Of this instant alone, with the children of its run. */
  tokens_used: number;
  cost_usd: number | null;
  /** From 1. */
  attempt: number;
  /** More than one instant, in a row of state missed: the last of them, and how many. */
  until?: string;
  count?: number;
  /** Asked for by `Schedule.run`. */
  extra?: true;
  /** It is accepted and waits for its turn, however late it gets. */
  queued?: true;
  /** For `continue`: what the conversation had used before this instant. */
  used_before?: { tokens_used: number; cost_usd: number | null };
  /** Of the job's budgets of the day, what the run may use; null: it has no such budget. */
  reserved?: { tokens: number | null; cost: number | null };
  /** A retry waits until then. */
  not_before?: string;
  /** What made an instant that no clock has: a hook's delivery id, changed files, another job's instant. */
  cause?: string;
  /** The file with the body of a hook's delivery, below the project's data folder. */
  body?: string;
  delivery?: DeliveryState[];
  /** The first 2,000 characters. */
  result?: string;
  /** A hash of the whole answer. */
  answer?: string;
}

export interface DeliveryState {
  to: string;
  state: "due" | "delivered" | "failed";
  tries: number;
  error: string | null;
}
