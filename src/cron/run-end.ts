/** What the end of a run means for its row, and for the jobs after it. Pure functions. */

import { isoOf } from "../lib/time-zone.ts";
import type { LedgerRow } from "../plugin/index.ts";
import { isScheduled, type StoredJob } from "./job.ts";
import type { RunOutcome } from "./ports.ts";

const RESULT_CHARS = 2000;

/** The row of an attempt whose run has ended. `stopped`: why its schedule ended it. */
export function endedRow(
  row: LedgerRow,
  found: RunOutcome,
  stopped: string | undefined,
  now: number,
): LedgerRow {
  const succeeded = found.exitCode === 0 && stopped === undefined;
  return {
    ...row,
    ...useOf(row, found),
    state: succeeded ? "ran" : "failed",
    reason: succeeded ? null : (stopped ?? found.error ?? found.exitReason),
    ended: isoOf(found.endedAt ?? now),
    exit_code: found.exitCode,
    exit_reason: found.exitReason,
    ...(found.result !== null && {
      result: found.result.slice(0, RESULT_CHARS),
      answer: Bun.hash(found.result).toString(36),
    }),
  };
}

/** A further attempt would not change this end. */
export function isDecided({ exitReason }: RunOutcome): boolean {
  return DECIDED.has(exitReason ?? "");
}

/** Ends that a further attempt would not change, or that a person has decided. */
const DECIDED: ReadonlySet<string> = new Set(
  "killed terminated killed_while_paused interrupted budget_exceeded usage".split(" "),
);

/** The record of a run that had one. */
export const GONE: RunOutcome = {
  state: "ended",
  exitCode: null,
  exitReason: null,
  error: "the record of its run is gone",
  result: null,
  tokensUsed: 0,
  costUsd: null,
  endedAt: null,
  repeatable: false,
  filesChanged: null,
};

/** The cause of the next job's instant; null: the end is none of its triggers. */
export function followOf(
  { trigger, state }: StoredJob,
  job: StoredJob | undefined,
  ended: LedgerRow,
): string | null {
  if (!("after" in trigger) || !job || trigger.after !== job.name) return null;
  if (!isScheduled({ state })) return null;
  const on = trigger.on ?? "success";
  const fits = on === "any" || (on === "success") === (ended.state === "ran");
  return fits ? `${ended.job_id} ${ended.due}` : null;
}

/** What the run used for this instant alone. */
export function useOf(
  { used_before }: LedgerRow,
  found: RunOutcome,
): Pick<LedgerRow, "tokens_used" | "cost_usd"> {
  const cost = found.costUsd;
  return {
    tokens_used: Math.max(0, found.tokensUsed - (used_before?.tokens_used ?? 0)),
    cost_usd: cost === null ? null : Math.max(0, cost - (used_before?.cost_usd ?? 0)),
  };
}
