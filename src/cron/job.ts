/** A job on disk: its schema, its defaults and the checks that need no run. */

import { z } from "zod";
import { MAX_AGE_MS, parseDuration } from "../lib/duration.ts";
import { messageOf } from "../lib/error-detail.ts";
import { issueText } from "../lib/issue-text.ts";
import { instantOf } from "../lib/time-zone.ts";
import { limitsNamed, namesWith } from "../options/option-list.ts";
import { optionSchemas } from "../options/option-schemas.ts";
import { type JobRequest, type JobTrigger, SyscallError } from "../plugin/index.ts";
import { PermissionRecord } from "../store/runs/schema.ts";
import { JOB_DEFAULTS } from "./job-defaults.ts";
import { isClockTrigger, timetableOf } from "./timetable.ts";

/** Maximum jobs of a project. */
export const MAX_JOBS = 10_000;
const MAX_RUN_BYTES = 1024 * 1024;

const Duration = z.string().superRefine((text, context) => {
  try {
    parseDuration(text, MAX_AGE_MS);
  } catch (thrown) {
    context.addIssue({ code: "custom", message: messageOf(thrown) });
  }
});

const Name = z
  .string()
  .regex(/^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/, 'expected at most 64 letters, digits, ".", "_" and "-"');

const Text = z.string().min(1).max(100_000);

const Trigger = z.union([
  z.strictObject({ cron: z.string().min(1).max(500), tz: z.string().optional() }),
  z.strictObject({ every: z.string() }),
  z.strictObject({ at: z.string(), tz: z.string().optional() }),
  z.strictObject({ on_change: z.array(z.string().min(1)).min(1).max(100), debounce: Duration.optional() }),
  z.strictObject({ on_idle: Duration }),
  z.strictObject({ on_hook: Name }),
  z.strictObject({ after: Name, on: z.enum(["success", "failure", "any"]).optional() }),
]);

const Count = z.int().min(0).max(1000);

const Fields = {
  name: Name,
  trigger: Trigger,
  intent: Text,
  run: z.record(z.string(), z.unknown()),
  overlap: z.enum(["skip", "queue", "replace", "allow"]).optional(),
  misfire: z.enum(["none", "one", "all"]).optional(),
  grace: Duration.optional(),
  retry: z
    .strictObject({ max: Count.min(1), from: Duration, to: Duration, safe: z.boolean().optional() })
    .refine(({ from, to }) => parseDuration(from, MAX_AGE_MS) <= parseDuration(to, MAX_AGE_MS), {
      message: "expected `from` of at most `to`",
    })
    .optional(),
  deadline: Duration.optional(),
  budget_per_day: z.int().positive().optional(),
  max_cost_per_day: z.number().positive().optional(),
  if: Text.optional(),
  if_input: z.boolean().optional(),
  on_failure: Text.optional(),
  expect_every: Duration.optional(),
  on_silence: Text.optional(),
  pause_after: Count.optional(),
  continue: z.boolean().optional(),
  deliver: z
    .array(z.strictObject({ to: Text, when: z.enum(["always", "on-change", "on-failure"]) }))
    .max(20)
    .optional(),
  expires_at: z.string().optional(),
} satisfies Record<keyof Omit<JobRequest, "replace">, z.ZodType>;

const Request = z.lazy(() => z.strictObject({ ...Fields, replace: z.boolean().optional() }));

/** What a job made by a run may do: at most what that run could. The server fills it in and applies it. */
const Rights = z.object({
  permissions: PermissionRecord,
  /** The sandbox of its programs, as its receipt names it. */
  sandbox: z.string().optional(),
  ...limitsNamed(() => z.number().nullable()),
  ...optionSchemas(namesWith({ inherited: true })),
});
export type JobRights = z.infer<typeof Rights>;

export const StoredJob = z.lazy(() =>
  z.object({
    ...Fields,
    id: z.string(),
    project: z.string(),
    creator: z.union([
      z.object({ kind: z.literal("user") }),
      z.object({ kind: z.literal("run"), uuid: z.string(), agent: z.string() }),
    ]),
    rights: Rights.optional(),
    state: z.enum(["enabled", "disabled", "paused", "blocked", "done"]),
    reason: z.string().nullable(),
    created_at: z.string(),
    /** Instants count from here: its creation, or its last enabling or change. */
    since: z.string(),
    /** The run of a job with `continue`. */
    conversation: z.string().optional(),
    /** It was reported as silent and has not succeeded since. */
    silent: z.boolean().optional(),
    /** The user has disabled it, so no run can enable it. */
    held: z.boolean().optional(),
  }),
);
export type StoredJob = z.infer<typeof StoredJob>;

/** Whether the job waits for its next instant. A blocked one tries again then. */
export function isScheduled({ state }: Pick<StoredJob, "state">): boolean {
  return state === "enabled" || state === "blocked";
}

/** Returns every problem that the request itself has. */
export function problemsOf(request: unknown, now: number): string[] {
  const parsed = Request.safeParse(request);
  if (!parsed.success) return issueText(parsed.error).split("; ");
  const job = parsed.data;
  const problems: string[] = [];
  const check = (run: () => void): void => {
    try {
      run();
    } catch (thrown) {
      problems.push(messageOf(thrown));
    }
  };
  check(() => requireInstant(job.trigger, now));
  check(() => {
    if (job.expires_at !== undefined && instantOf(job.expires_at) <= now)
      throw new SyscallError("INVALID", `expires_at: ${job.expires_at} is over.`);
  });
  if (job.if_input && job.if === undefined)
    problems.push("if_input: expected `if`, whose output is the input");
  if (job.on_silence !== undefined && job.expect_every === undefined)
    problems.push("on_silence: expected expect_every too");
  for (const glob of "on_change" in job.trigger ? job.trigger.on_change : [])
    if (glob.startsWith("/") || glob.startsWith("~") || glob.split("/").includes(".."))
      problems.push(`on_change: expected a glob below the project's folder, got ${JSON.stringify(glob)}`);
  if ("after" in job.trigger && job.trigger.after === job.name)
    problems.push("after: a job can't follow itself");
  if (JSON.stringify(job.run).length > MAX_RUN_BYTES) problems.push("run: expected at most 1 MiB");
  return problems;
}

/** Fails with INVALID for a clock trigger that never fires. */
function requireInstant(trigger: JobTrigger, now: number): void {
  if (!isClockTrigger(trigger)) return;
  if (timetableOf(trigger, now).next(now) !== null) return;
  const when = "at" in trigger ? `${trigger.at} is over` : "no date fits this expression";
  throw new SyscallError("INVALID", `No instant is left: ${when}.`);
}

export function parseRequest(request: unknown): JobRequest {
  return Request.parse(request);
}

/** The policies of a job, with durations in ms and the defaults filled in. */
export type Policies = ReturnType<typeof readPolicies>;

const policies = new WeakMap<StoredJob, Policies>();

export function policiesOf(job: StoredJob): Policies {
  return policies.getOrInsertComputed(job, readPolicies);
}

function readPolicies(job: StoredJob) {
  const ms = (text: string | undefined): number | null =>
    text === undefined ? null : parseDuration(text, MAX_AGE_MS);
  const { retry } = job;
  return {
    overlap: job.overlap ?? JOB_DEFAULTS.overlap,
    misfire: job.misfire ?? JOB_DEFAULTS.misfire,
    graceMs: ms(job.grace) ?? JOB_DEFAULTS.graceMs,
    pauseAfter: job.pause_after ?? JOB_DEFAULTS.pauseAfter,
    deadlineMs: ms(job.deadline),
    expectEveryMs: ms(job.expect_every),
    expiresAt: job.expires_at === undefined ? null : instantOf(job.expires_at),
    retry: retry
      ? {
          max: retry.max,
          fromMs: parseDuration(retry.from, MAX_AGE_MS),
          toMs: parseDuration(retry.to, MAX_AGE_MS),
          safe: retry.safe ?? false,
        }
      : null,
  };
}
