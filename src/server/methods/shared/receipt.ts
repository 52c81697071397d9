/** Makes the receipt of an ended run. */

import type { ProcInfo } from "../../../kernel/types.ts";
import type { Receipt } from "../../../protocol/methods.ts";

/** The receipt of an ended run (interfaces §1, `--output json`), the same for every command that shows a verdict. */
export function receiptOf(info: ProcInfo): Receipt {
  return {
    pid: info.pid,
    uuid: info.uuid,
    agent: info.agent,
    provider: info.provider,
    model: info.model,
    exit_code: info.exit_code ?? 1,
    exit_reason: info.exit_reason ?? "failed",
    suspended: info.suspended,
    result: info.result,
    partial: info.partial,
    output: info.output,
    steps: info.steps,
    tool_calls: info.tool_calls,
    tokens_used: info.tokens_used,
    usage: info.usage,
    cost_usd: info.cost_usd,
    elapsed_ms: info.elapsed_ms,
    notices: info.notices,
    checks: info.checks,
    sandbox: info.sandbox,
    program_limits: info.program_limits,
    taint: info.permissions.taint ?? null,
    base: info.base,
    files_changed: info.files_changed,
    files_changed_complete: info.files_changed_complete,
    children: info.children,
    ...(info.units_at_end && { units_at_end: info.units_at_end }),
    error: info.error,
  };
}
