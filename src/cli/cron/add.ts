/** `rnix cron add`: makes a job, and shows when it will run. */

import { accessSync, constants, statSync } from "node:fs";
import { homedir } from "node:os";
import { join, resolve } from "node:path";
import { deliveryTarget } from "../../lib/delivery-target.ts";
import { MAX_AGE_MS } from "../../lib/duration.ts";
import { objectOf } from "../../options/option-list.ts";
import {
  type AddedJob,
  JOB_OPTIONS,
  type JobOption,
  type JobRequest,
  type JobTrigger,
} from "../../plugin/index.ts";
import { defineCommand } from "../command.ts";
import { usageError } from "../exit.ts";
import { absoluteFolder } from "../files/paths.ts";
import {
  age,
  bool,
  choice,
  count,
  type FlagValues,
  json,
  limit,
  list,
  milliseconds,
  one,
  text,
} from "../flags.ts";
import type { Io } from "../io.ts";
import { print } from "../output/print.ts";
import { JOB_RUN_FLAGS, optionFields } from "../run-flags.ts";
import { cronCall } from "./call.ts";
import { hookText, nextLines } from "./job-text.ts";
import { firingNotice } from "./service.ts";

const WHENS = ["always", "on-change", "on-failure"] as const;

const OPTIONS = Object.entries<JobOption>(JOB_OPTIONS).map(([name, option]) => ({
  name,
  flag: name.replaceAll("_", "-"),
  ...option,
}));

const RETRY_FLAGS = {
  retry: count("further attempts after a failure, if no call of it has acted", "N"),
  backoff: text("the wait before each attempt, growing between two durations (default 1m..30m)", "DUR..DUR"),
  safe: bool("a run may be repeated even if its calls have acted"),
};

const DELIVERY_FLAGS = {
  deliver: list(
    "send the answer to a command, an address or a file (FILE replaces, '>>FILE' appends)",
    "CMD|URL|FILE",
  ),
  "deliver-when": choice("which answers are sent (default always)", WHENS),
};

/** The flags that are shown after the one of an option. */
const AFTER = new Map<string, object>([
  ["grace", RETRY_FLAGS],
  ["continue", DELIVERY_FLAGS],
]);

const JOB_FLAGS = {
  name: text("the job's name; by default made from INTENT", "NAME"),
  tz: text("the zone of SCHEDULE and --at, such as Europe/Berlin; by default this machine's", "ZONE"),
  at: text("run once, at this time: 2027-01-05T09:00", "TIME"),
  every: text("run in this interval, such as 15m: the same as SCHEDULE '@every 15m'", "DUR"),
  "on-change": list("run when files change that match this glob, relative to the project", "GLOB"),
  debounce: age("how long the files must be unchanged before it runs (default 2s)"),
  "on-idle": age("run when no run of the project has worked for this long, and again once one has"),
  "on-hook": text("run for each line of the hook's FIFO, and each POST to its address", "HOOK"),
  after: text("run after the runs of this job", "JOB"),
  "after-end": choice("after which runs of that job (default success)", ["success", "failure", "any"]),
  ...objectOf<typeof RETRY_FLAGS & typeof DELIVERY_FLAGS>(
    OPTIONS.flatMap((option) => [
      [option.flag, flagOf(option)] as const,
      ...Object.entries(AFTER.get(option.name) ?? {}),
    ]),
  ),
  replace: bool("change the job of this name; its history stays"),
  ...JOB_RUN_FLAGS,
};

function flagOf({ kind, help, choices = [] }: JobOption) {
  const kinds = {
    choice: () => choice(help, choices),
    switch: () => bool(help),
    age: () => age(help),
    time: () => one(help, "TIME|DUR", {}, "some text", time),
    command: () => text(help, "CMD"),
    target: () => text(help, "CMD|URL"),
    tokens: () => count(help, "TOKENS"),
    dollars: () => limit(help, "USD", "dollars"),
    pause: () => one(help, "N", {}, "a whole number from 1 to 1000, or never", pause),
  };
  return kinds[kind]();
}

type JobFlags = FlagValues<typeof JOB_FLAGS>;

/** The job that the arguments and flags describe. Fails with INVALID for what does not go together. */
async function jobOf(io: Io, flags: JobFlags, args: readonly string[]): Promise<JobRequest> {
  const { trigger, intent } = triggerOf(flags, args);
  if (intent.trim() === "") throw usageError("INTENT is empty: say what each run should do");
  const { env } = flags;
  const run = {
    ...(await optionFields(io, "spawn", flags)),
    ...(Object.keys(env.set).length > 0 && { env: env.set }),
    // Each run takes them from the user's file.
    ...(env.passed.length > 0 && { env_names: env.passed }),
  };
  return {
    name: flags.name ?? nameFrom(intent),
    trigger,
    intent,
    run,
    ...optionsOf(flags),
    retry: retryOf(flags),
    deliver: deliveries(io, flags),
    replace: flags.replace || undefined,
  };
}

const EVERY = /^@every\s+(\S+)$/;

function triggerOf(flags: JobFlags, args: readonly string[]): { trigger: JobTrigger; intent: string } {
  const { at, after, tz, debounce, every, "on-idle": idle, "on-hook": hook } = flags;
  const { "after-end": end, "on-change": globs } = flags;
  const zone = tz === undefined ? {} : { tz };
  const triggers: [string, JobTrigger | undefined][] = [
    ["--every", every === undefined ? undefined : { every }],
    ["--at", at === undefined ? undefined : { at, ...zone }],
    ["--on-change", globs.length === 0 ? undefined : { on_change: globs, ...(debounce && { debounce }) }],
    ["--on-idle", idle === undefined ? undefined : { on_idle: idle }],
    ["--on-hook", hook === undefined ? undefined : { on_hook: hook }],
    ["--after", after === undefined ? undefined : { after, ...(end && { on: end }) }],
  ];
  const given = triggers.filter(([, trigger]) => trigger);
  const [[name, trigger] = [], ...more] = given;
  if (more.length > 0)
    throw usageError(`${given.map(([one]) => one).join(" and ")} exclude each other: a job has one trigger`);
  const schedule = trigger ? "" : (args[0]?.trim() ?? "");
  if (tz !== undefined && at === undefined && (trigger || EVERY.test(schedule)))
    throw usageError("--tz belongs to --at, or to a SCHEDULE with times such as '0 3 * * *'");
  if (debounce !== undefined && globs.length === 0) throw usageError("--debounce belongs to --on-change");
  if (end !== undefined && after === undefined) throw usageError("--after-end belongs to --after");
  const [first = "", second] = args;
  if (trigger && second === undefined) return { trigger, intent: first };
  if (trigger)
    throw usageError(
      `${name} takes the place of SCHEDULE: expected INTENT alone, got ${JSON.stringify(first)} too`,
    );
  if (second === undefined)
    throw usageError(
      `expected SCHEDULE and INTENT, such as rnix cron add '0 3 * * 1-5' "check the dependencies", or --at, --on-change, --on-idle, --on-hook or --after`,
    );
  const [, interval] = EVERY.exec(schedule) ?? [];
  return { trigger: interval === undefined ? { cron: first, ...zone } : { every: interval }, intent: second };
}

const MAX_NAME = 32;

/** `Check the dependencies!` is check-the-dependencies. */
function nameFrom(intent: string): string {
  const words = intent.toLowerCase().match(/[a-z0-9]+/g) ?? [];
  let name = "";
  for (const word of words) {
    const next = name === "" ? word : `${name}-${word}`;
    if (next.length > MAX_NAME) break;
    name = next;
  }
  if (name !== "") return name;
  throw usageError("--name is missing: expected letters, digits, ., _ and -");
}

function retryOf({ retry, backoff, safe }: JobFlags): JobRequest["retry"] {
  if (retry === undefined) {
    if (backoff !== undefined || safe)
      throw usageError(`${safe ? "--safe" : "--backoff"} belongs to --retry N`);
    return undefined;
  }
  const [from = "1m", to = backoff === undefined ? "30m" : from] = (backoff ?? "")
    .split("..")
    .map((one) => one || undefined);
  for (const one of [from, to]) {
    if (!milliseconds(one, MAX_AGE_MS))
      throw usageError(`--backoff: expected two durations such as 1m..30m, got ${JSON.stringify(backoff)}`);
  }
  return { max: retry, from, to, ...(safe && { safe }) };
}

function pause(given: string): number | undefined {
  if (given === "never") return 0;
  const number = /^\d+$/.test(given) ? Number(given) : 0;
  return number > 0 && number <= 1000 ? number : undefined;
}

function time(given: string): string | undefined {
  const ms = milliseconds(given, MAX_AGE_MS);
  return ms ? new Date(Date.now() + ms).toISOString() : given || undefined;
}

/** The options that the flags give. A switch that is off and `unlimited` are the default. */
function optionsOf(flags: JobFlags): Partial<JobRequest> {
  const given = new Map<string, unknown>(Object.entries(flags));
  return objectOf(
    OPTIONS.map(({ name, flag, kind }) => {
      const value = given.get(flag);
      return [name, value === false || (kind === "dollars" && value === "unlimited") ? undefined : value];
    }),
  );
}

function deliveries(io: Io, flags: JobFlags): JobRequest["deliver"] {
  const when = flags["deliver-when"];
  if (flags.deliver.length === 0) {
    if (when !== undefined) throw usageError("--deliver-when belongs to --deliver");
    return undefined;
  }
  return flags.deliver.map((to) => ({ to: absoluteTarget(io, to), when: when ?? "always" }));
}

const PATH = /^(?:~\/|\.{1,2}\/|\/)/;

/** A file with its absolute path, behind `>` or `>>`. A path of a program is a command. */
function absoluteTarget(io: Io, given: string): string {
  const to = given.trim();
  const target = deliveryTarget(to);
  if (target.kind !== "command") return to;
  const [, mark = "", rest = ""] = /^(>{0,2})\s*(.*)$/s.exec(to) ?? [];
  if (mark === "" && !(PATH.test(rest) && !/\s/.test(rest))) return to;
  const path = rest.startsWith("~/") ? join(homedir(), rest.slice(2)) : resolve(io.cwd, rest);
  if (mark === "" && isProgram(path)) return to;
  if (statSync(path, { throwIfNoEntry: false })?.isDirectory())
    throw usageError(`--deliver: expected a file, got the folder ${rest}`);
  return `${mark || ">"}${path}`;
}

function isProgram(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return statSync(path).isFile();
  } catch {
    return false;
  }
}

export const add = defineCommand({
  about: "Schedule a job: a run of an agent at each of its times or events",
  args: [
    {
      name: "SCHEDULE",
      about:
        "five fields, such as '0 3 * * 1-5', six with seconds, @daily, or '@every 15m'; none with a trigger flag",
      optional: true,
      sentence: true,
    },
    { name: "INTENT", about: "what each run should do", optional: true, sentence: true },
  ],
  flags: { ...JOB_FLAGS, json },
  examples: {
    'rnix cron add \'0 3 * * 1-5\' "update the dependencies" --name nightly --check "npm test" --max-cost 2':
      "at 3 in the night before each working day; the check decides whether it succeeded",
    "rnix cron add '@every 15m' \"answer the new issues\" --if 'gh issue list --label new | grep .' --if-input":
      "a time without a new issue costs nothing; the list is the run's input",
    "rnix cron add --on-change 'docs/**' \"check the links\" --deliver ./links.md --deliver-when on-change":
      "when the files have been unchanged for 2s; the file has the last answer that differs",
  },
  notes: [
    "SCHEDULE is minute, hour, day of month, month, day of week. If both day fields are set, it runs when either matches; + before the day of week requires both.",
    "Where clocks go forward, a job at a fixed time in the gap runs once at its end; where they go back, once, at the first of the two times. Wildcards follow the clock.",
    "Everything that a run needs is checked at once: agent, provider, key, model, tools, paths. A model that no list can confirm is a warning. The key comes from ~/.config/rnix/env or api_key_command, not from this shell.",
    "A run of a job has all limits of a spawn, and resumes after a crash. Without a person to ask, --on-ask decides.",
  ],
  async run(io, flags, args) {
    const job = await jobOf(io, flags, args);
    const cwd = absoluteFolder(io, "--cwd", flags.cwd ?? ".");
    const added = await cronCall<AddedJob>(io, "add", { job }, cwd);
    const { hook } = added.job;
    const code = print(io, flags, added, (style) => {
      const events = hook ? `${hookText(hook).replace(/^/gm, "  ")}\n` : "";
      return `job ${style.bold(added.job.name)}\n${nextLines(added.job, added.next, style)}${events}`;
    });
    if (flags.json) return code;
    if (hook?.url === null)
      io.stderr.write(
        `note: rnix cron show ${added.job.name} has its address for POST as soon as it listens\n`,
      );
    for (const warning of added.warnings) io.stderr.write(`warning: ${warning}\n`);
    const notice = firingNotice(io);
    if (notice !== null) io.stderr.write(`note: ${notice}\n`);
    return code;
  },
});
