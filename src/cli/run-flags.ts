/** Flags of several commands that start or resume a run, as fields of their requests. */

import { choice, type FlagValues, rules } from "./flags.ts";
import type { Io } from "./io.ts";
import { absolutePath } from "./paths.ts";

/** Flags about questions to a person. */
export const ASK_FLAGS = {
  ask: rules("ask a person before these calls, such as Bash or Write(.github/**)"),
  "ask-mode": choice("ask before calls that change something outside the project, without a rule", [
    "off",
    "outside",
  ]),
  "on-ask": choice(
    "without a person to ask: refuse, take the question's default, or suspend until rnix answer",
    ["deny", "default", "park"],
  ),
};

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
