/** The operations that are written to /dev/cron, and what a read then returns. */

import { type JobInfo, type JobRequest, type LedgerRow, type Schedule, SyscallError } from "rnix/plugin";
import { isObject } from "../_lib/json.ts";
import { answerRequest } from "../_lib/operations.ts";

type Input = Record<string, unknown>;

const NEXT = 5;
const ROWS = 20;

/** Those of the command line return JSON, those of the tools text. */
const OPERATIONS: Readonly<Record<string, (input: Input, schedule: Schedule) => Promise<unknown>>> = {
  CronCreate: create,
  CronList: async (_, schedule) => listText(await schedule.list()),
  CronDelete: async (input, schedule) => `The job ${(await schedule.remove(nameOf(input))).name} is removed.`,
  add: ({ job }, schedule) => schedule.add(jobOf(job)),
  list: ({ all_projects }, schedule) => schedule.list({ all_projects: all_projects === true }),
  async show(input, schedule) {
    const job = named(await schedule.list(), nameOf(input));
    const { instants } = await schedule.next({ name: job.name, count: numberOf(input.count, NEXT) });
    const runs = await schedule.history({ name: job.name, limit: numberOf(input.limit, ROWS) });
    return { job, next: instants, runs };
  },
  remove: (input, schedule) => schedule.remove(nameOf(input)),
  enable: (input, schedule) => schedule.enable(nameOf(input)),
  disable: (input, schedule) => schedule.disable(nameOf(input)),
  run: (input, schedule) => schedule.run(nameOf(input)),
  history: ({ name, since_ms, limit, all_projects }, schedule) =>
    schedule.history({
      ...(typeof name === "string" && { name }),
      ...(typeof since_ms === "number" && { since_ms }),
      limit: numberOf(limit, ROWS),
      all_projects: all_projects === true,
    }),
  next: ({ name, expression, tz, count }, schedule) =>
    schedule.next({
      ...(typeof name === "string" && { name }),
      ...(typeof expression === "string" && { expression }),
      ...(typeof tz === "string" && { tz }),
      count: numberOf(count, NEXT),
    }),
};

export async function answer(text: string, schedule: Schedule): Promise<string> {
  const operations = Object.entries(OPERATIONS).map(([op, run]) => {
    const answered = async (input: Input): Promise<string> => {
      const result = await run(input, schedule);
      return typeof result === "string" ? result : JSON.stringify(result);
    };
    return [op, answered] as const;
  });
  return await answerRequest("/dev/cron", text, operations);
}

async function create(input: Input, schedule: Schedule): Promise<string> {
  const { agent, model, max_steps, max_tokens, max_cost, ...rest } = input;
  const { cron, every, at, on_change, after, tz, ...options } = rest;
  const { job, next, warnings } = await schedule.add(
    jobOf({
      ...options,
      trigger: triggerOf({ cron, every, at, on_change, after }, tz),
      run: { agent, model, max_steps, context_budget: max_tokens, max_cost },
    }),
  );
  const when = next.length === 0 ? "It runs at its event." : `Its next times: ${next.join(", ")}.`;
  return [
    `The job ${job.name} is scheduled. ${when}`,
    ...ends(job),
    ...warnings.map((one) => `Warning: ${one}`),
  ].join("\n");
}

function ends({ expires_at }: JobInfo): string[] {
  return expires_at === undefined ? [] : [`It ends at ${expires_at}.`];
}

function triggerOf(triggers: Input, tz: unknown): Input {
  const given = Object.keys(triggers).filter((name) => triggers[name] !== undefined);
  const [only] = given;
  if (only === undefined || given.length > 1) {
    const message = `CronCreate: expected one of ${Object.keys(triggers).join(", ")}, got ${given.length === 0 ? "none" : given.join(" and ")}.`;
    throw new SyscallError("INVALID", message);
  }
  return { [only]: triggers[only], ...((only === "cron" || only === "at") && { tz }) };
}

function listText(jobs: readonly JobInfo[]): string {
  if (jobs.length === 0) return "This project has no scheduled jobs.";
  return jobs.map(jobText).join("\n");
}

function jobText({ name, trigger, state, reason, next_at, last, intent, creator }: JobInfo): string {
  const by = creator.kind === "user" ? "the user" : `run ${creator.uuid}`;
  const parts = [
    `${name}: ${JSON.stringify(trigger)}, ${state}${reason === null ? "" : ` (${reason})`}, made by ${by}`,
    next_at === null ? "" : `next ${next_at}`,
    last === null ? "never ran" : `last ${lastText(last)}`,
    `intent: ${intent.replaceAll(/\s+/g, " ").slice(0, 200)}`,
  ];
  return parts.filter((part) => part !== "").join("; ");
}

function lastText({ due, state, reason }: LedgerRow): string {
  return `${due} ${state}${reason === null ? "" : ` (${reason})`}`;
}

export async function jobAndRuns(
  name: string,
  schedule: Schedule,
): Promise<{ job: JobInfo; runs: LedgerRow[] }> {
  const job = named(await schedule.list(), name);
  return { job, runs: await schedule.history({ name: job.name, limit: ROWS }) };
}

/** The job of this name or id. Fails with NOT_FOUND and the names that there are. */
function named(jobs: readonly JobInfo[], name: string): JobInfo {
  const job = jobs.find((one) => one.name === name || one.id === name);
  if (job) return job;
  const known = jobs.map((one) => one.name).slice(0, 20);
  throw new SyscallError(
    "NOT_FOUND",
    `There is no job ${name} in this project. ${known.length === 0 ? "It has none." : `It has ${known.join(", ")}.`}`,
  );
}

/** The service checks the whole request and names every problem. */
function jobOf(value: unknown): JobRequest {
  if (isRequest(value)) return value;
  throw new SyscallError("INVALID", "/dev/cron: expected a job with name, trigger, intent and run.");
}

function isRequest(value: unknown): value is JobRequest {
  return isObject(value) && isObject(value.trigger) && isObject(value.run);
}

function nameOf({ name }: Input): string {
  if (typeof name === "string" && name !== "") return name;
  throw new SyscallError("INVALID", "/dev/cron: expected the name of a job.");
}

function numberOf(value: unknown, usual: number): number {
  return typeof value === "number" && Number.isInteger(value) && value > 0 ? value : usual;
}
