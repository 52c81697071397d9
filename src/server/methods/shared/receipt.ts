/** Makes the receipt of an ended run. */

import type { ProcInfo } from "../../../kernel/types.ts";
import type { Receipt } from "../../../protocol/methods.ts";

/** The receipt of an ended run (interfaces §1, `--output json`), the same for every command that shows a verdict. */
export function receiptOf(info: ProcInfo): Receipt {
  const { pid, uuid, agent, provider, model, exit_code, exit_reason, suspended, result, partial } = info;
  const { output, steps, tool_calls, tokens_used, usage, cost_usd, elapsed_ms, notices, checks } = info;
  const { sandbox, program_limits, base, files_changed, files_changed_complete, children } = info;
  return {
    pid,
    uuid,
    agent,
    provider,
    model,
    exit_code: exit_code ?? 1,
    exit_reason: exit_reason ?? "failed",
    suspended,
    result,
    partial,
    output,
    steps,
    tool_calls,
    tokens_used,
    usage,
    cost_usd,
    elapsed_ms,
    notices,
    checks,
    sandbox,
    program_limits,
    taint: info.permissions.taint ?? null,
    base,
    files_changed,
    files_changed_complete,
    children,
    ...(info.units_at_end && { units_at_end: info.units_at_end }),
    error: info.error,
  };
}
