/** The driver of /dev/cron: the scheduled jobs of the project. */

import {
  definePlugin,
  JOB_OPTIONS,
  type JobOption,
  type OpenContext,
  type Schedule,
  SyscallError,
  type ToolDef,
} from "rnix/plugin";
import { AnswerFile } from "../_lib/answer-file.ts";
import { answer, jobAndRuns } from "./operations.ts";

const OPTIONS = Object.fromEntries(
  Object.entries<JobOption>(JOB_OPTIONS).flatMap(([name, { tool }]) => (tool ? [[name, tool]] : [])),
);

const NAME = {
  type: "string",
  minLength: 1,
  description: "Letters, digits, `.`, `_`, `-`; unique in the project.",
};

const TOOLS: ToolDef[] = [
  {
    name: "CronCreate",
    description:
      "Schedule a job: a new run of an agent at each of its times. It knows only `intent`, has at most your rights and budgets, runs at most every 5m, and ends after 7 days unless you say otherwise. Give one of cron, every, at, on_change, after.",
    input: {
      type: "object",
      properties: {
        name: NAME,
        intent: { type: "string", minLength: 1, description: "What each run should do, complete in itself." },
        cron: { type: "string", description: "Five fields, such as `0 9 * * 1-5`, or @daily." },
        tz: {
          type: "string",
          description: "The zone of cron and at, such as Europe/Berlin. Default: this machine's.",
        },
        every: { type: "string", description: "Such as 15m or 2h." },
        at: { type: "string", description: "Once, such as 2027-01-05T09:00." },
        on_change: {
          type: "array",
          items: { type: "string" },
          description: "Globs of files of the project.",
        },
        after: { type: "string", description: "The name of a job: after each of its successful runs." },
        agent: { type: "string" },
        model: { type: "string" },
        max_steps: { type: "integer", minimum: 1 },
        max_tokens: { type: "integer", minimum: 1, description: "Of each run and its children." },
        max_cost: { type: "number", exclusiveMinimum: 0, description: "USD of each run." },
        ...OPTIONS,
        replace: { type: "boolean", description: "Change your job of this name." },
      },
      required: ["name", "intent"],
      additionalProperties: false,
    },
    subject: "name",
    defer: true,
  },
  {
    name: "CronList",
    description: "List the scheduled jobs of this project: when each runs next, how its last run ended.",
    input: { type: "object", properties: {}, additionalProperties: false },
    defer: true,
    annotations: { readOnlyHint: true, idempotentHint: true },
  },
  {
    name: "CronDelete",
    description: "Remove a scheduled job that you have made.",
    input: { type: "object", properties: { name: NAME }, required: ["name"], additionalProperties: false },
    subject: "name",
    defer: true,
    annotations: { destructiveHint: true },
  },
];

/**
 * /dev/cron (seeds 2.14): the scheduled jobs of the project. A read lists them; a write of `{op, …}` is one operation.
 * A read of /dev/cron/NAME shows one job with its last runs.
 */
export default definePlugin({
  name: "cron",
  api: 1,
  needs: ["schedule"],
  devices: {
    "/dev/cron": {
      match: "prefix",
      tools: TOOLS,
      factory: (subpath, _flags, context) => open(subpath.replace(/^\//, ""), context),
    },
  },
});

function open(name: string, context: OpenContext): AnswerFile {
  const schedule = scheduleOf(context);
  const jobs = { device: "/dev/cron", answer: (text: string) => answer(text, schedule) };
  const content = async (): Promise<unknown> => (name === "" ? schedule.list() : jobAndRuns(name, schedule));
  return new AnswerFile({
    ...(name === "" ? jobs : { device: `/dev/cron/${name}` }),
    content: async () => `${JSON.stringify(await content(), null, 2)}\n`,
  });
}

function scheduleOf({ schedule }: OpenContext): Schedule {
  if (schedule) return schedule;
  throw new SyscallError("UNAVAILABLE", "/dev/cron: this rnix has no schedules.");
}
