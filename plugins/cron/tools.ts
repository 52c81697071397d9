/** The tools of /dev/cron, as a model sees them. */

import { JOB_OPTIONS, type JobOption, type ToolDef } from "rnix/plugin";

/** The options of a job that CronCreate takes. */
const OPTIONS = Object.fromEntries(
  Object.entries<JobOption>(JOB_OPTIONS).flatMap(([name, { tool }]) => (tool ? [[name, tool]] : [])),
);

const NAME = {
  type: "string",
  minLength: 1,
  description: "Letters, digits, `.`, `_`, `-`; unique in the project.",
};

export const TOOLS: ToolDef[] = [
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
