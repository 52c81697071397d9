import { z } from "zod";
import { isObject } from "../_lib/is-object.ts";
import { Condition, Match, pattern, texts } from "./condition.ts";

/** How strictly what came is compared with what a script expects (docs/replay.md). */
export const COMPARE = ["usual", "exact", "state"] as const;
export type Compare = (typeof COMPARE)[number];

const Limit = z.union([z.number().int().positive(), z.literal("unlimited")]);
const Count = z.number().int().nonnegative();

const ToolCall = z.strictObject({
  id: z.string().min(1).optional(),
  name: z.string().min(1),
  input: z.record(z.string(), z.unknown()).default({}),
  invalid: z.strictObject({ text: z.string(), reason: z.string() }).optional(),
  /** What its result must be, as the model is shown it. Looked at when the next answer is asked for. */
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
  /** The provider's own word for it. */
  stop_word: z.string().optional(),
  /** What must hold of the conversation before it is given. */
  expect: Condition.optional(),
};

/** One answer of the scripted model. */
export const Response = z.strictObject(answer);
export type Response = z.infer<typeof Response>;

/** One way on: an answer, or several. */
export type Way = Response & { when?: Condition; responses?: Entry[] };

/** The first way whose `when` holds is taken; one without `when` always does. What follows goes on after it. */
export interface Branch {
  one_of: Way[];
}

export type Entry = Response | Branch;

/** `responses` go instead of an answer of its own. */
const Way: z.ZodType<Way> = z.lazy(() =>
  z
    .strictObject({ ...answer, when: Condition.optional(), responses: z.array(Entry).optional() })
    .refine(({ responses, when: _, ...own }) => responses === undefined || Object.keys(own).length === 0, {
      error: "has an answer of its own beside `responses`: write it as the first of them",
    }),
);

const Branch: z.ZodType<Branch> = z.lazy(() => z.strictObject({ one_of: z.array(Way).min(1) }));

/** By its own key, so that what is wrong in it is told and not that it fits neither. */
export const Entry: z.ZodType<Entry> = z.lazy(() =>
  z.unknown().transform((value, context): Entry => {
    const schema = isObject(value) && "one_of" in value ? Branch : Response;
    const result = schema.safeParse(value);
    if (result.success) return result.data;
    for (const issue of result.error.issues) context.issues.push({ ...issue, input: value, code: "custom" });
    return z.NEVER;
  }),
);

const head = {
  /** What `rnix replay` has it do when it plays this script. */
  intent: z.string().optional(),
  agent: z.string().optional(),
  /** Text that is attached to the intent. */
  input: z.string().optional(),
  checks: z.array(z.string()).optional(),
  /** As the flags of a spawn: what is added to the prompt, the rights, folders outside, the form of the answer. */
  system_prompt: z.string().optional(),
  allow: z.array(z.string()).optional(),
  deny: z.array(z.string()).optional(),
  folders: z.array(z.string()).optional(),
  output_schema: z.record(z.string(), z.unknown()).optional(),
  /** Of the run, in place of its agent's. */
  limits: z
    .strictObject({
      max_steps: Limit.optional(),
      context_budget: Limit.optional(),
      timeout_ms: Limit.optional(),
    })
    .optional(),
  compare: z.enum(COMPARE).optional(),
  /** The run it was made from. Its folders in results stand for those of today. */
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
    })
    .optional(),
};

/** What the agents play that the run spawns: each the first that is not taken and has its name and intent. */
interface ChildScript {
  agent: string;
  intent: string;
  responses: Entry[];
  children?: ChildScript[];
}

const Child: z.ZodType<ChildScript> = z.lazy(() =>
  z.strictObject({
    agent: z.string(),
    intent: z.string(),
    responses: z.array(Entry),
    children: z.array(Child).optional(),
  }),
);

/** What may stand in the first line of JSONL, before the responses. */
export const Head = z.lazy(() => z.strictObject({ ...head, children: z.array(Child).optional() }));
export type Head = z.infer<typeof Head>;
export const HEAD_KEYS: readonly string[] = [...Object.keys(head), "children"];

export const ScriptFile = z.lazy(() =>
  z.strictObject({ ...head, responses: z.array(Entry), children: z.array(Child).optional() }),
);

/** What is played: a file's, or a recorded run's. */
export interface Script extends Head {
  /** For messages: the file, or the run. */
  name: string;
  responses: Entry[];
}
