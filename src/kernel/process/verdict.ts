/** Derives the exit code and reason of a run from how its task ended. */

import { failedCheck } from "../../lib/check-attempts.ts";
import type { Signal } from "../../lib/signals.ts";
import { SIGINT, SIGKILL } from "../../lib/signals.ts";
import { SyscallError } from "../../plugin/index.ts";
import type { CheckResult, ChildResult } from "../../store/runs/schema.ts";
import type { ExitReason, ExitStatus, SuspendCause, Wake } from "../types.ts";

/** How a task ended. */
export type RunOutcome =
  /** The agent gave its answer. */
  | { kind: "finished" }
  /** A signal, limit or suspension stopped it. */
  | { kind: "stopped"; status: ExitStatus }
  | BrokenRun;

/** An error ended it. `code`: of a script that has chosen it. */
export type BrokenRun = { kind: "broken"; reason: ExitReason; error: SyscallError; code?: number };

/**
 * The verdict: the one place that decides how a run ended (design §2). Exit code, JSON and process record all show it. A
 * failed tool call does not change it.
 */
export function verdict(
  outcome: RunOutcome,
  checks: readonly CheckResult[],
  children: readonly ChildResult[],
): ExitStatus {
  if (outcome.kind === "stopped") return outcome.status;
  const check = failedCheck(checks);
  if (outcome.kind === "broken") {
    const { reason, error, code = CODES[reason] ?? 1 } = outcome;
    return { code, reason, error: afterCheck(error, check) };
  }
  if (check) {
    const message = `The agent finished, but ${checkFailure(check)}.`;
    return { code: 1, reason: "check_failed", error: new SyscallError("INVALID", message) };
  }
  const child = children.find(({ exit_code, interrupted }) => exit_code !== 0 && !interrupted);
  if (child) {
    const message = `The agent finished, but its child ${child.uuid} (${child.agent}) did not complete: ${child.exit_reason ?? "still running"}.`;
    return { code: 1, reason: "failed", error: new SyscallError("INVALID", message) };
  }
  return { code: 0, reason: "completed" };
}

/** Exit codes of errors other than 1 (design §2). */
const CODES: Partial<Record<ExitReason, number>> = { budget_exceeded: 2, usage: 64, unavailable: 69 };

/** "the check `npm test` ended with 1 in attempt 2". */
export function checkFailure({ command, exit_code, attempt = 1 }: CheckResult): string {
  const how = exit_code === null ? "did not end in time" : `ended with ${exit_code}`;
  return `the check \`${command}\` ${how}${attempt > 1 ? ` in attempt ${attempt}` : ""}`;
}

/** A run that had to end while it worked on a failed check. */
function afterCheck(error: SyscallError, check: CheckResult | undefined): SyscallError {
  if (!check) return error;
  const said = error.message.replace(/[.\s]*$/, "");
  return new SyscallError(error.code, `${said}. Before that, ${checkFailure(check)}.`, { cause: error });
}

/** The outcome of a run that ends before its work is done. */
export function broken(reason: ExitReason, message: string): BrokenRun {
  return { kind: "broken", reason, error: new SyscallError("EXHAUSTED", message) };
}

/** The exit code of a suspended run (EX_TEMPFAIL of sysexits.h). */
export const SUSPENDED: ExitStatus = { code: 75, reason: "suspended" };

/** The status of a suspension: its reason, its cause, and what will wake the run. */
export function suspendedFor(
  reason: string,
  { cause = "asked", wake = { on: "never" } }: { cause?: SuspendCause; wake?: Wake } = {},
): ExitStatus {
  return { ...SUSPENDED, suspended: { reason, cause, wake } };
}

/** The status of a run that a signal ended: 128 plus the Unix signal number. */
export function killed(signal: Signal, paused: boolean): ExitStatus {
  const name = signal === SIGKILL ? "SIGKILL" : signal === SIGINT ? "SIGINT" : "SIGTERM";
  const code = signal === SIGKILL ? 137 : signal === SIGINT ? 130 : 143;
  const reason = signal === SIGKILL ? "killed" : signal === SIGINT ? "interrupted" : "terminated";
  const error = new SyscallError("CANCELLED", `Ended by ${name}${paused ? " while paused" : ""}.`);
  return { code, reason: paused ? "killed_while_paused" : reason, error };
}
