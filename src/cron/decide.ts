/** The policies of a job: what becomes of a due instant. Pure functions. */

import { formatDuration } from "../lib/duration.ts";
import { isoOf } from "../lib/time-zone.ts";
import type { LedgerRow } from "../plugin/index.ts";
import { NOT_RUN } from "./due.ts";
import type { Policies, StoredJob } from "./job.ts";
import { LEAST_INTERVAL_MS } from "./run-made.ts";
import { isClockTrigger } from "./timetable.ts";

/** Maximum instants of a job that wait for their turn. */
export const MAX_QUEUED = 100;

/** What is known when the due rows of a job are decided. */
interface Situation {
  now: number;
  job: StoredJob | undefined;
  policies: Policies | undefined;
  /** The instants whose runs are live or begin, oldest first. */
  live: readonly LedgerRow[];
  /** Why no run may begin today; null: it may. */
  spent: string | null;
  /** Why events may start no run now; null: they may. */
  tooOften: string | null;
}

/** The decision about one row: its new version, or to begin it, or to wait. */
export type Decision =
  | { do: "write"; row: LedgerRow }
  | { do: "begin"; row: LedgerRow }
  /** End the live runs, then begin. */
  | { do: "replace"; row: LedgerRow }
  | { do: "wait" };

/** Decides all due rows of a job, oldest first. */
export function decide(rows: readonly LedgerRow[], at: Situation): Decision[] {
  const { job, policies } = at;
  if (!job || !policies) return rows.map((row) => write(row, "skipped", "the job was removed", at));
  if (job.state === "disabled" || job.state === "paused" || job.state === "done") {
    return rows.map((row) =>
      row.extra && job.state !== "done"
        ? begin(row, at)
        : write(row, "skipped", `the job is ${job.state}`, at),
    );
  }
  const due = rows.filter((row) => Date.parse(row.due) <= at.now);
  const later: Decision[] = rows.filter((row) => !due.includes(row)).map(() => ({ do: "wait" }));
  const made = misfires(due, policies, at);
  let live = [...at.live];
  let queued = 0;
  const decisions = made.map((decision): Decision => {
    if (decision.do !== "begin") return decision;
    const decided = turn(decision.row, { ...at, live }, policies, queued);
    if (decided.do === "begin" || decided.do === "replace") live = [...live, decided.row];
    else if (decided.do === "wait" || decided.row.state === "due") queued++;
    return decided;
  });
  return [...decisions, ...later];
}

/** Instants that are noticed too late. Accepted ones are not: they have waited for their turn. */
function misfires(rows: readonly LedgerRow[], { misfire, graceMs }: Policies, at: Situation): Decision[] {
  const isLate = (row: LedgerRow): boolean => !row.queued && !row.extra && lateOf(row, at.now) > graceMs;
  const late = rows.filter(isLate);
  const chosen = misfire === "one" ? (rows.find((row) => !isLate(row)) ?? late.at(-1)) : undefined;
  return rows.map((row): Decision => {
    if (!late.includes(row)) return { do: "begin", row };
    if (misfire === "all" || row === chosen) return { do: "begin", row: { ...row, queued: true } };
    const why = chosen
      ? `made up for by the run of ${chosen.due}`
      : `noticed ${formatDuration(lateOf(row, at.now))} late, and misfire is none`;
    return write(row, "missed", why, at);
  });
}

function turn(row: LedgerRow, at: Situation, policies: Policies, queued: number): Decision {
  const due = Date.parse(row.due);
  if (policies.expiresAt !== null && due > policies.expiresAt && !row.extra)
    return write(row, "skipped", "the job has expired", at);
  if (policies.deadlineMs !== null && at.now - due >= policies.deadlineMs)
    return write(row, row.attempt > 1 ? "failed" : "missed", "its deadline has passed", at);
  if (row.not_before !== undefined && Date.parse(row.not_before) > at.now) return { do: "wait" };
  // Of two that wait to be tried again, the earlier one is first.
  const others = at.live.filter((one) => one.due !== row.due && (one.state !== "due" || one.due < row.due));
  const [busy] = others;
  if (busy && policies.overlap !== "allow") {
    const queuedRow: LedgerRow = row.queued ? row : { ...row, queued: true };
    if (policies.overlap === "replace") return { do: "replace", row: queuedRow };
    if (policies.overlap === "skip" && !row.queued)
      return write(row, "skipped", `an earlier run is still live, that of ${busy.due}`, at);
    if (queued >= MAX_QUEUED && row.attempt === 1)
      return write(row, "skipped", `${MAX_QUEUED} earlier instants wait already`, at);
    return row.queued ? { do: "wait" } : { do: "write", row: queuedRow };
  }
  if (at.spent !== null) return write(row, "skipped", at.spent, at);
  if (at.tooOften !== null && !row.extra && row.attempt === 1) return write(row, "skipped", at.tooOften, at);
  return begin(row, at);
}

function begin(row: LedgerRow, at: Situation): Decision {
  return { do: "begin", row: { ...row, late_ms: lateOf(row, at.now) } };
}

function write(row: LedgerRow, state: LedgerRow["state"], reason: string, at: Situation): Decision {
  return { do: "write", row: { ...row, state, reason, late_ms: lateOf(row, at.now) } };
}

function lateOf({ due }: LedgerRow, now: number): number {
  return Math.max(0, now - Date.parse(due));
}

/** The row of the next attempt after a failure; null: there is none. */
export function retryOf(
  row: LedgerRow,
  policies: Policies,
  { now, repeatable, random }: { now: number; repeatable: boolean; random(): number },
): LedgerRow | null {
  const { retry, deadlineMs } = policies;
  if (!retry || row.attempt > retry.max || !(repeatable || retry.safe)) return null;
  const wait = Math.min(retry.toMs, retry.fromMs * 2 ** (row.attempt - 1));
  const at = now + Math.round(wait * (1 - random() / 4));
  if (deadlineMs !== null && at - Date.parse(row.due) >= deadlineMs) return null;
  const { uuid: _, used_before: __, reserved: ___, result: ____, answer: _____, ...same } = row;
  return { ...same, ...NOT_RUN, attempt: row.attempt + 1, queued: true, not_before: isoOf(at) };
}

/** Failures in a row, the newest first, since the job was enabled. Each instant counts once. */
export function failuresInARow(rows: readonly LedgerRow[], since: string): LedgerRow[] {
  const failed: LedgerRow[] = [];
  const seen = new Set<string>();
  for (const row of rows.toReversed()) {
    if (row.due < since || seen.has(row.due)) continue;
    if (row.state === "ran") break;
    if (row.state !== "failed") continue;
    seen.add(row.due);
    failed.push(row);
  }
  return failed;
}

/** Maximum runs in the period. Two jobs that change each other's files would start each other without end. */
const MAX_RUNS = 60;
const PERIOD_MS = 3_600_000;

/** Why events may not start another run of the job now; null: they may. */
export function startedTooOften(
  { creator, trigger }: StoredJob,
  rows: readonly LedgerRow[],
  now: number,
): string | null {
  const begunWithin = (ms: number): number => {
    const from = isoOf(now - ms);
    return rows.filter(({ started, attempt }) => started !== null && started > from && attempt === 1).length;
  };
  if (creator.kind === "run" && !isClockTrigger(trigger) && begunWithin(LEAST_INTERVAL_MS) > 0)
    return `a run made the job: events start it at most every ${formatDuration(LEAST_INTERVAL_MS)}`;
  const begun = "on_change" in trigger ? begunWithin(PERIOD_MS) : 0;
  if (begun < MAX_RUNS) return null;
  return `changed files have started it ${begun} times in an hour: another job may write into its folders`;
}
