/** The schema and types of a replay script. */

import { z } from "zod";
import { isObject } from "../_lib/json.ts";
import { Condition, Match, pattern, texts } from "./condition.ts";

/** How strictly results are compared with what a script expects (docs/replay.md). */
export const COMPARE = ["usual", "exact", "state"] as const;
export type Compare = (typeof COMPARE)[number];

const Limit = z.union([z.number().int().positive(), z.literal("unlimited")]);
const Count = z.number().int().nonnegative();

const ToolCall = z.strictObject({
  id: z.string().min(1).optional(),
  name: z.string().min(1),
  input: z.record(z.string(), z.unknown()).default({}),
  invalid: z.strictObject({ text: z.string(), reason: z.string() }).optional(),
  /** What its result must be, in the form sent to the model. Checked when the next answer is requested. */
  expect: Match.optional(),
});

const answer = {
  text: z.string().optional(),
  reasoning: z.string().optional(),
  tool_calls: z.array(ToolCall).optional(),
  usage: z
    .strictObject({
      input_tokens: Count.optional(),
      output_tokens: Count.optional(),
      cached_tokens: Count.optional(),
    })
    .optional(),
  stop_reason: z.enum(["end_turn", "tool_calls", "max_tokens", "refusal", "paused", "other"]).optional(),
  /** The provider's own word for the stop reason. */
  stop_word: z.string().optional(),
  /** What must be true of the conversation before this answer. */
  expect: Condition.optional(),
};

/** One answer of the scripted model. */
export const Response = z.strictObject(answer);
export type Response = z.infer<typeof Response>;

/** One option of a branch: an answer, or several. */
export type Option = Response & { when?: Condition; responses?: ScriptItem[] };

/** Takes the first option whose `when` is true or absent, then continues after the branch. */
export interface Branch {
  one_of: Option[];
}

export type ScriptItem = Response | Branch;

/** An option has either `responses` or an answer of its own. */
const Option: z.ZodType<Option> = z.lazy(() =>
  z
    .strictObject({ ...answer, when: Condition.optional(), responses: z.array(ScriptItem).optional() })
    .refine(({ responses, when: _, ...own }) => responses === undefined || Object.keys(own).length === 0, {
      error: "has an answer of its own beside `responses`: write it as the first of them",
    }),
);

const Branch: z.ZodType<Branch> = z.lazy(() => z.strictObject({ one_of: z.array(Option).min(1) }));

/** Validated by the form that its keys suggest, so that errors name the field and not the union. */
export const ScriptItem: z.ZodType<ScriptItem> = z.lazy(() =>
  z.unknown().transform((value, context): ScriptItem => {
    const schema = isObject(value) && "one_of" in value ? Branch : Response;
    const result = schema.safeParse(value);
    if (result.success) return result.data;
    for (const issue of result.error.issues) context.issues.push({ ...issue, input: value, code: "custom" });
    return z.NEVER;
  }),
);

const CALL = z.string().regex(/^\S+( (done|failed|denied|cancelled))?$/, {
  error: "is no call: write the tool's name, or its name and done, failed, denied or cancelled",
});

const head = {
  /** The intent of the run that `rnix replay` starts with this script. */
  intent: z.string().optional(),
  agent: z.string().optional(),
  /** Text that is attached to the intent. */
  input: z.string().optional(),
  checks: z.array(z.string()).optional(),
  /** How often the checks are run by `rnix replay`: 1 by default. */
  check_attempts: z.number().int().positive().optional(),
  /** As the flags of `rnix spawn`: additions to the prompt, rules, folders outside, the answer's schema. */
  system_prompt: z.string().optional(),
  allow: z.array(z.string()).optional(),
  deny: z.array(z.string()).optional(),
  folders: z.array(z.string()).optional(),
  output_schema: z.record(z.string(), z.unknown()).optional(),
  /** Limits of the run, in place of its agent's. */
  limits: z
    .strictObject({
      max_steps: Limit.optional(),
      context_budget: Limit.optional(),
      timeout_ms: Limit.optional(),
    })
    .optional(),
  compare: z.enum(COMPARE).optional(),
  /** The run it was made from. Its folders in results stand for the current ones. */
  recorded: z
    .strictObject({
      uuid: z.string().optional(),
      at: z.string().optional(),
      cwd: z.string().optional(),
      project: z.string().optional(),
    })
    .optional(),
  /** How the run must end, for `rnix replay`. */
  outcome: z
    .strictObject({
      exit_code: z.number().int().optional(),
      exit_reason: z.string().optional(),
      result: z
        .union([
          z.string(),
          z.strictObject({
            equals: z.string().optional(),
            contains: texts.optional(),
            lacks: texts.optional(),
            matches: pattern.optional(),
          }),
        ])
        .optional(),
      /** The calls in order: `Bash`, or with their state `Bash failed`. */
      tool_calls: z.array(CALL).optional(),
      /** Files that must not be there, relative to the run's folder. */
      absent: z.array(z.string().min(1)).optional(),
    })
    .optional(),
};

/** The script of an agent that the run spawns: the first unused one with its name and intent. */
interface ChildScript {
  agent: string;
  intent: string;
  responses: ScriptItem[];
  children?: ChildScript[];
}

const Child: z.ZodType<ChildScript> = z.lazy(() =>
  z.strictObject({
    agent: z.string(),
    intent: z.string(),
    responses: z.array(ScriptItem),
    children: z.array(Child).optional(),
  }),
);

/** What the first line of JSONL may hold, before the responses. */
export const Head = z.lazy(() => z.strictObject({ ...head, children: z.array(Child).optional() }));
export type Head = z.infer<typeof Head>;
export const HEAD_KEYS: readonly string[] = [...Object.keys(head), "children"];

export const ScriptFile = z.lazy(() =>
  z.strictObject({ ...head, responses: z.array(ScriptItem), children: z.array(Child).optional() }),
);

export interface Script extends Head {
  /** The file or the run, in messages. */
  name: string;
  responses: ScriptItem[];
}

/** The part of a step's record that is played: the model's answer and its usage. */
export const RecordedStep = z.object({
  step: z.number(),
  messages: z.array(
    z.object({
      role: z.string(),
      content: z.string(),
      tool_calls: z
        .array(
          z.object({
            id: z.string(),
            name: z.string(),
            input: z.record(z.string(), z.unknown()),
            invalid: z.object({ text: z.string(), reason: z.string() }).optional(),
          }),
        )
        .optional(),
    }),
  ),
  /** For an incomplete answer. */
  stop_reason: z.enum(["max_tokens", "refusal", "paused", "other"]).optional(),
  stop_word: z.string().optional(),
  usage: z.object({ input_tokens: z.number(), output_tokens: z.number(), cached_tokens: z.number() }),
});
export type RecordedStep = z.infer<typeof RecordedStep>;
