import type { Action, ProcInfo, StepRecord } from "../store/runs/schema.ts";
import type { ProcRef } from "./fields.ts";
import type { Receipt } from "./receipt.ts";

export interface StepSummary {
  step: number;
  ts: string;
  action: Action;
  summary: string;
  tool_path: string | null;
  has_error: boolean;
  duration_ms: number;
  token_count: number;
}

/** The seeds' StepRecord (seeds 5.1): `tool_*` are those of the step's first call. */
export interface StepDetail extends StepRecord, ProcRef {
  tool_path: string | null;
  tool_input: Record<string, unknown> | null;
  tool_result: string | null;
  tool_error: string | null;
  /** What is kept whole beside the records, as it was found. */
  kept_results: KeptResult[];
}

/** A result of which the model was shown a part. */
interface KeptResult {
  /** Of the call. */
  id: string;
  /** Absolute. */
  path: string;
  bytes: number;
  /** null: it is there, with the content it had. */
  problem: string | null;
}

export interface ProcDetail extends ProcInfo {
  /** The process is held by the daemon now; else this is its record on disk. */
  live: boolean;
  fds: { fd: number; path: string }[];
  /** What it has mounted; `down` says why it can't be used now. */
  mounts: { path: string; type: string; down: string | null }[];
  /** null: not known, the process is not live. */
  context: { messages: number } | null;
  /** null as long as it runs. */
  receipt: Receipt | null;
}
