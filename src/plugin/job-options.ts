/** The table of job options: flags, requests, a tool, stored jobs and what is shown of them follow from it. */

export interface JobOption {
  /** `age`: a text such as `90s` or `30d`. `time`: RFC 3339. `target`: a command or an address. `pause`: 0 is never. */
  kind: "choice" | "switch" | "age" | "time" | "command" | "target" | "tokens" | "dollars" | "pause";
  choices?: readonly string[];
  /** The flag; absent: the option's name with dashes. */
  flag?: string;
  help: string;
  /** `rnix cron show` lists it among the policies. */
  policy?: true;
  /** The tool CronCreate takes it, with this JSON Schema. */
  tool?: object;
}

/** A job has an option under this name, in requests and on disk. Flags are shown in this order. */
export const JOB_OPTIONS = {
  overlap: {
    kind: "choice",
    choices: ["skip", "queue", "replace", "allow"],
    help: "while an earlier run is live: skip (default), queue, replace it, or allow both",
    policy: true,
  },
  misfire: {
    kind: "choice",
    choices: ["none", "one", "all"],
    help: "for times that were missed: run none, one for all (default), or all",
    policy: true,
  },
  grace: { kind: "age", help: "how late a run still begins on time (default 1m)", policy: true },
  deadline: {
    kind: "age",
    help: "from its time, by when it must have ended, with all attempts",
    policy: true,
  },
  budget_per_day: { kind: "tokens", help: "maximum tokens of the job per day" },
  max_cost_per_day: { kind: "dollars", help: "maximum cost of the job per day" },
  on_failure: { kind: "target", help: "notify this command or address of a failure, a pause and a block" },
  expect_every: { kind: "age", help: "without a successful run for this long, the job is silent" },
  on_silence: { kind: "target", help: "notify this command or address when it is silent" },
  if: {
    kind: "command",
    help: "run this command first: unless it exits with 0, the time is skipped and costs nothing",
  },
  if_input: { kind: "switch", help: "attach the output of --if to the run as its input" },
  continue: { kind: "switch", help: "one conversation that each time resumes, instead of a new run" },
  pause_after: {
    kind: "pause",
    help: "failures in a row after which the job is paused (default 5), or never",
  },
  expires_at: {
    kind: "time",
    flag: "expires",
    help: "when the job ends: a time, or a duration from now",
    tool: { type: "string", description: "When it ends, at most 30 days from now." },
  },
} as const satisfies Record<string, JobOption>;

type Value<Option> = Option extends { choices: readonly (infer Choice)[] }
  ? Choice
  : Option extends { kind: "switch" }
    ? boolean
    : Option extends { kind: "tokens" | "dollars" | "pause" }
      ? number
      : string;

/** The options of a job. */
export type JobOptions = { [Name in keyof typeof JOB_OPTIONS]?: Value<(typeof JOB_OPTIONS)[Name]> };
