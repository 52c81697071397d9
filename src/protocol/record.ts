import { z } from "zod";
import type { Action, ProcInfo, StepRecord, SyscallEventWire } from "../store/runs/schema.ts";
import { Page, type ProcRef, Target, type Unreadable, Uuid } from "./fields.ts";
import type { Receipt } from "./receipt.ts";
import type { Difference, ScriptEntry, ScriptHead } from "./replay.ts";

/** What the records of one run say. */
export const RECORD_METHODS = {
  list_events: { streaming: false, payload: () => Target().extend(Page()) },
  list_steps: { streaming: false, payload: () => Target().extend(Page()) },
  get_step_detail: { streaming: false, payload: () => Target().extend({ step: z.int().positive() }) },
  get_proc_detail: { streaming: false, payload: Target },
  show: { streaming: false, payload: Target },
  /** Of a run that was played again (`replayed`, its UUID): where it differs from the recorded one. */
  compare_runs: { streaming: false, payload: () => Target().extend({ replayed: Uuid() }) },
  /** A recorded run as a script. The head comes with the first page. */
  export_script: { streaming: false, payload: () => Target().extend(Page()) },
} as const;

export interface RecordAnswers {
  /** `next` is the `after` of the next page; `parse_errors` counts lines that can't be read, `damaged` names them. */
  list_events: { events: (SyscallEventWire & { uuid: string })[]; next: number } & Unreadable;
  /** `parse_errors` and `damaged` are those of all pages. */
  list_steps: { steps: StepSummary[]; total: number } & Unreadable;
  get_step_detail: StepDetail;
  get_proc_detail: ProcDetail;
  show: ProcDetail;
  compare_runs: { differences: Difference[] };
  /** `next` is the `after` of the next page, null after the last; `children` are the agents' runs that it has spawned. */
  export_script: {
    head: ScriptHead | null;
    responses: ScriptEntry[];
    children: string[];
    next: number | null;
  };
}

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
