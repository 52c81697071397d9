/** What a workflow's Worker and its run send each other. */

import { z } from "zod";
import { optionSchemas } from "../options/option-schemas.ts";

/** The run options that a script may give to an agent, by their names in requests. */
export const AGENT_RUN_OPTIONS = [
  ...(["agent", "model", "effort", "max_steps", "context_budget", "max_cost", "timeout_ms"] as const),
  ...(["allow", "deny", "skill", "check_attempts", "output_schema", "system_prompt"] as const),
] as const;

/** The second argument of `agent`. */
export const AgentOptions = z.strictObject({
  ...optionSchemas(AGENT_RUN_OPTIONS),
  /** The JSON Schema that the answer must fit: `agent` then gives the document. */
  schema: z.record(z.string(), z.unknown()).optional(),
  /** Text beside the prompt, as data. */
  input: z.string().optional(),
  /** The agent works in a git worktree of its own. */
  worktree: z.boolean().optional(),
  check: z.union([z.string(), z.array(z.string())]).optional(),
  /** How the agent is called in lists; it does not count for the content of the call. */
  label: z.string().max(200).optional(),
  phase: z.string().max(200).optional(),
});

export type AgentOptions = z.infer<typeof AgentOptions>;

/** A record of each agent has it. */
const PhaseName = z.string().transform((name) => name.slice(0, 200));

/** What a script asks of its run. */
export const FromScript = z.discriminatedUnion("t", [
  z.object({
    t: z.literal("agent"),
    id: z.number(),
    prompt: z.string(),
    options: z.unknown(),
    phase: PhaseName.optional(),
    /** How many calls of the same prompt and options came before it. */
    occurrence: z.number(),
  }),
  z.object({ t: z.literal("phase"), name: PhaseName }),
  z.object({ t: z.literal("log"), text: z.string() }),
  z.object({ t: z.literal("done"), value: z.unknown() }),
  z.object({
    t: z.literal("failed"),
    message: z.string().transform((text) => text.slice(0, 2000)),
    stack: z.string().optional(),
  }),
]);

export type FromScript = z.infer<typeof FromScript>;
export type AgentCall = Extract<FromScript, { t: "agent" }>;

/** Tokens of the run and its agents; `total` is null without a limit. */
export interface TokenBudget {
  total: number | null;
  spent: number;
}

/** What the run sends: the script once, then the end of each `agent`. */
export type ToScript =
  | { t: "run"; name: string; body: string; args: unknown; budget: TokenBudget }
  | { t: "answer"; id: number; value: unknown; budget: TokenBudget }
  | { t: "error"; id: number; message: string; receipt?: unknown; budget: TokenBudget };
