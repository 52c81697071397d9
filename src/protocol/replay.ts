/** Answers about replays: differences between runs, and exported scripts. */

import type { ToolCall } from "../plugin/index.ts";
import type { StepRecord } from "../store/runs/schema.ts";

/** A difference between a replayed run and the recorded one. */
export interface Difference {
  kind: "prompt" | "tools" | "rights" | "limits" | "checks" | "result" | "outcome";
  step: number | null;
  /** What differs. */
  message: string;
  /** The text of each run that the other lacks; null: none, or the message has both. */
  recorded: string | null;
  replayed: string | null;
}

type WireLimit = number | "unlimited";

/** The head of a replay script: facts about the recorded run. */
export interface ScriptHead {
  intent: string;
  agent: string;
  input?: string;
  checks?: string[];
  /** Absent: 1. */
  check_attempts?: number;
  system_prompt?: string;
  allow?: string[];
  deny?: string[];
  folders?: string[];
  output_schema?: Record<string, unknown>;
  limits?: { max_steps?: WireLimit; context_budget?: WireLimit; timeout_ms?: WireLimit };
  recorded: { uuid: string; at: string; cwd: string; project: string };
  outcome: { exit_code?: number; exit_reason?: string; result?: { equals: string } };
}

/** One answer of such a script. */
export interface ScriptEntry extends Pick<StepRecord, "reasoning" | "stop_reason" | "stop_word" | "usage"> {
  text?: string;
  tool_calls?: (ToolCall & { expect?: { equals?: string; contains?: string[]; error?: string } })[];
}
