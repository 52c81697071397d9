/** The receipt of a run that did not begin or was lost, for programs that read one. */

import type { ProcRef, Receipt } from "../../protocol/methods.ts";
import { EXIT } from "../exit.ts";

export function receiptWithoutRun(
  exitCode: number,
  error: { code: string; message: string },
  ref: ProcRef,
): Receipt {
  return {
    ...ref,
    agent: "",
    provider: "",
    model: "",
    exit_code: exitCode,
    exit_reason: error.code === "TIMEOUT" ? "timeout" : (REASONS[exitCode] ?? "failed"),
    suspended: null,
    result: null,
    partial: false,
    output: null,
    steps: 0,
    tool_calls: 0,
    tokens_used: 0,
    usage: { input_tokens: 0, output_tokens: 0, cached_tokens: 0 },
    cost_usd: null,
    elapsed_ms: 0,
    notices: [],
    checks: [],
    taint: null,
    sandbox: "none",
    program_limits: "none",
    base: null,
    files_changed: [],
    files_changed_complete: false,
    children: [],
    error,
  };
}

const REASONS: Record<number, string> = {
  [EXIT.usage]: "usage",
  [EXIT.unavailable]: "unavailable",
  [EXIT.interrupted]: "interrupted",
};
