/** Flags of several commands that start or resume a run, as fields of their requests. */

import { ASK_MODES } from "../lib/ask-modes.ts";
import { EFFORTS } from "../plugin/index.ts";
import { usageError } from "./exit.ts";
import { absolutePath, jsonObject, textOrFile } from "./files/paths.ts";
import {
  bool,
  choice,
  costLimit,
  count,
  type FlagValues,
  limit,
  list,
  rules,
  text,
  timeLimit,
  variables,
} from "./flags.ts";
import type { Io } from "./io.ts";

/** Flags about questions to a person. */
export const ASK_FLAGS = {
  ask: rules("ask a person before these calls, such as Bash or Write(.github/**)"),
  "ask-mode": choice(
    "what needs your yes without a rule: only look and plan, ask outside the project, accept edits, or nothing",
    ASK_MODES.toReversed(),
  ),
  "on-ask": choice(
    "without a person, or an answer in time: refuse, take the question's default, or suspend until rnix answer",
    ["deny", "default", "park"],
  ),
};

/** What follows an answer while background units live. */
export const UNIT_FLAGS = {
  "on-units": choice(
    "with live background units, after the answer: wait for them, suspend until they report, or end them",
    ["wait", "park", "kill"],
  ),
};

/** Fails with USAGE where nothing would wake a parked run. */
export function requireWaker(flags: FlagValues<typeof UNIT_FLAGS> & { "no-daemon": boolean }): void {
  if (flags["on-units"] !== "park" || !flags["no-daemon"]) return;
  throw usageError(
    "--on-units park and --no-daemon exclude each other: only the daemon wakes a run when its units report",
  );
}

type AskFlags = FlagValues<typeof ASK_FLAGS>;

export type LimitFlags = Partial<
  Record<"max-steps" | "budget" | "max-cost" | "timeout", number | "unlimited">
>;

/** Flags of a new run: of a chat, and of one with an intent. */
interface NewRunFlags extends LimitFlags, AskFlags {
  agent?: string;
  provider?: string;
  model?: string;
  trust: boolean;
  allow: string[];
  deny: string[];
  mcp: string[];
  skill: string[];
  add: string[];
}

export function newRunFields(io: Io, flags: NewRunFlags) {
  const { agent, provider, model } = flags;
  return {
    agent,
    provider,
    model,
    ...limitFields(flags),
    trust: flags.trust || undefined,
    allow: unlessEmpty(flags.allow),
    deny: unlessEmpty(flags.deny),
    ...askFields(flags),
    mcp: unlessEmpty(flags.mcp),
    skill: unlessEmpty(flags.skill),
    add: unlessEmpty(flags.add.map((path) => absolutePath(io, "--add", path))),
  };
}

export function limitFields({ "max-steps": max_steps, budget, "max-cost": max_cost, timeout }: LimitFlags) {
  return { max_steps, context_budget: budget, max_cost, timeout_ms: timeout };
}

export function askFields({ ask, "ask-mode": ask_mode, "on-ask": on_ask }: AskFlags) {
  return { ask: unlessEmpty(ask), ask_mode, on_ask };
}

export function unlessEmpty(values: string[]): string[] | undefined {
  return values.length === 0 ? undefined : values;
}

/** The flags of a spawn that describe its run. A scheduled job takes them, too. */
export const SPAWN_FLAGS = {
  agent: text("which agent to run; rnix agents lists them", "NAME"),
  provider: text("which provider to use; rnix providers lists them", "NAME"),
  model: text("which model to use", "MODEL"),
  effort: choice("how much the model thinks before it answers", EFFORTS),
  "max-steps": limit('maximum steps of the run, or "unlimited"', "N"),
  budget: limit('maximum tokens of the run and its children, or "unlimited"; exit 2 when used up', "TOKENS"),
  "max-cost": costLimit(
    'maximum cost of the run and its children, or "unlimited"; exit 2 when used up. Needs a known price',
  ),
  timeout: timeLimit('maximum running time, such as 10m, or "unlimited"'),
  allow: rules("allow only these tools, such as Read,Grep or Bash(git *)"),
  deny: rules("refuse these tools"),
  ...ASK_FLAGS,
  ...UNIT_FLAGS,
  mcp: list("start this MCP server for the run; without it the run does not begin", "NAME"),
  skill: list("load this skill into the prompt", "NAME"),
  sandbox: choice("whether programs must run in a sandbox (there is none yet: required exits 69)", [
    "auto",
    "required",
    "off",
  ]),
  trust: bool("let this run use everything the project brings, trusted or not"),
  base: text(
    "take agents, skills, plugins, servers, settings and instructions from this commit, not from the checkout",
    "REF",
  ),
  check: list("a command that must succeed at the end, else the run fails", "CMD"),
  "check-attempts": count(
    "how often the checks are run (default 3): after a failed one the agent sees its output and continues",
    "N",
  ),
  "output-schema": text(
    "a file with the JSON Schema that the answer must fit; it is then one JSON document",
    "FILE",
    { file: "read" },
  ),
  "system-prompt": text("added to the agent's instructions; @FILE reads it from a file", "TEXT|@FILE", {
    file: "read @",
  }),
  add: list("attach a file, text or image, or let the run use a folder outside the project", "PATH"),
  cwd: text("run in this folder", "DIR"),
  env: variables("set a variable for the run's programs; with --base, let one through"),
};

export type SpawnFlags = FlagValues<typeof SPAWN_FLAGS>;

/** They as fields of the request, without `cwd` and `env`. */
export async function spawnFields(io: Io, flags: SpawnFlags) {
  return {
    ...newRunFields(io, flags),
    effort: flags.effort,
    on_units: flags["on-units"],
    sandbox: flags.sandbox,
    base: flags.base,
    check: unlessEmpty(flags.check),
    check_attempts: flags["check-attempts"],
    output_schema: await jsonObject(io, "--output-schema", flags["output-schema"]),
    system_prompt: await textOrFile(io, "--system-prompt", flags["system-prompt"]),
  };
}
