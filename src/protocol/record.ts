/** Answers about the records of a run: its steps, prompts, details and replays. */

import type { DaemonSnapshot, ToolCall } from "../plugin/index.ts";
import type { Activity } from "../run/live-event.ts";
import type { StepLine } from "../run/step-index.ts";
import type { Compaction, ProcInfo, StepRecord } from "../store/runs/schema.ts";
import type { StepChanges } from "./changes.ts";
import type { ProcRef } from "./fields.ts";
import type { Receipt } from "./receipt.ts";
import type { RUN_STATUSES } from "./run-status.ts";

export interface StepSummary extends StepLine {
  /** What it changed in files, if that was asked for; null: nothing. */
  changed?: StepChanges | null;
}

/** The seeds' StepRecord (seeds 5.1): `tool_*` are those of the step's first call. */
export interface StepDetail extends StepRecord, ProcRef {
  tool_path: string | null;
  tool_input: Record<string, unknown> | null;
  tool_result: string | null;
  tool_error: string | null;
  /** Large results that are stored beside the records. */
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

/** The request of a step, before its driver translates it for the provider. */
export interface StepPrompt extends ProcRef {
  step: number;
  provider: string;
  model: string;
  effort: ProcInfo["effort"];
  system_prompt: string;
  tools: { name: string; description: string; input: object }[];
  /** As sent, with all compactions applied. */
  messages: StepRecord["messages"];
  /** JSON Schema that the answer must fit. */
  output_schema: object | null;
  /** The compactions of the messages, oldest first. */
  compactions: AppliedCompaction[];
}

export interface AppliedCompaction extends Pick<Compaction, "ts" | "why" | "tokens_before" | "tokens_after"> {
  /** The step before which it was made. */
  step: number;
  /** Messages that it truncated. */
  truncated: number;
  /** Messages that one summary replaced; 0: it made no summary. */
  replaced: number;
  /** Who wrote the summary. */
  summary_by: "model" | "digest" | null;
}

/** How a process stands, for people. `state` has the kernel's own word, where `dead` is any end. */
export type RunStatus = (typeof RUN_STATUSES)[number];

export interface ListedProc extends ProcInfo {
  status: RunStatus;
  /** What it does now; null for one that has ended, is no agent or lives in another kernel. */
  doing: Activity | null;
  /** Its live background units; absent: none. */
  units?: DaemonSnapshot[];
}

/** All connections to one port of a host. */
export interface HostConnections {
  /** With its port. */
  host: string;
  count: number;
  /** How many of them were refused or failed. */
  failed: number;
  sent: number;
  received: number;
}

export interface ProcDetail extends ListedProc {
  /** The process is live in this kernel; else this is its record on disk. */
  live: boolean;
  fds: { fd: number; path: string }[];
  /** What it has mounted; `down` says why it can't be used now. */
  mounts: { path: string; type: string; down: string | null }[];
  /** Of all its background units, those that have ended first. */
  all_units: DaemonSnapshot[];
  connections: HostConnections[];
  /** null: not known, the process is not live. */
  context: { messages: number } | null;
  /** null while it runs. */
  receipt: Receipt | null;
}

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
