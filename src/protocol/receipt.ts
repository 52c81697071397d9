/** The receipt of a run. */

import type { Taint } from "../lib/taint.ts";
import type { ProcInfo } from "../store/runs/schema.ts";

/** The receipt of a run: what `--output json` prints (interfaces §1). */
export interface Receipt {
  pid: number;
  uuid: string;
  agent: string;
  provider: string;
  model: string;
  exit_code: number;
  exit_reason: string;
  /** With the reason "suspended": why, what it waits for, and whether it resumes by itself. */
  suspended: ProcInfo["suspended"];
  result: string | null;
  partial: boolean;
  output: unknown;
  steps: number;
  tool_calls: number;
  tokens_used: number;
  usage: { input_tokens: number; output_tokens: number; cached_tokens: number };
  cost_usd: number | null;
  elapsed_ms: number;
  /** Notices about the start of the run: parts that were left out, and why. */
  notices: string[];
  /** The checks of all attempts, in order: the last attempt decides. */
  checks: {
    command: string;
    exit_code: number | null;
    elapsed_ms?: number;
    output?: string;
    attempt?: number;
  }[];
  sandbox: string;
  program_limits: string;
  /** The first text of others that it has read, and what that means for its calls. */
  taint: Taint | null;
  /** `--base`: the revision from which agents, skills, servers, settings and instructions came. */
  base: { ref: string; commit: string } | null;
  files_changed: string[];
  files_changed_complete: boolean;
  children: {
    uuid: string;
    pid: number;
    agent: string;
    exit_code: number | null;
    exit_reason: string | null;
    tokens_used: number;
  }[];
  /** Background units that lived when the answer was given, and what followed (`--on-units`). Absent: none. */
  units_at_end?: ProcInfo["units_at_end"];
  error: { code: string; message: string } | null;
}
