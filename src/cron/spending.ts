/** What a job may still use today. */

import { dayOf, isoOf, localZone } from "../lib/time-zone.ts";
import type { LedgerRow } from "../plugin/index.ts";
import type { StoredJob } from "./job.ts";
import type { Ledger } from "./ledger.ts";

interface DayLeft {
  /** null: no limit. */
  tokens: number | null;
  cost: number | null;
  /** Why no run may begin; null: it may. */
  over: string | null;
}

/** The rest of the job's budgets of this day. A live run counts with its cap until its use is known. */
export function spentToday(
  job: StoredJob,
  ledger: Ledger,
  live: readonly (LedgerRow & { cap?: { tokens: number | null; cost: number | null } })[],
  now: number,
): DayLeft {
  const { budget_per_day: tokens, max_cost_per_day: cost } = job;
  if (tokens === undefined && cost === undefined) return { tokens: null, cost: null, over: null };
  let { tokens: usedTokens, cost: usedCost } = usedOnDay(job, ledger, now);
  for (const { cap, tokens_used, cost_usd } of live) {
    usedTokens += Math.max(0, (cap?.tokens ?? 0) - tokens_used);
    usedCost += Math.max(0, (cap?.cost ?? 0) - (cost_usd ?? 0));
  }
  const left = {
    tokens: tokens === undefined ? null : tokens - usedTokens,
    cost: cost === undefined ? null : cost - usedCost,
  };
  const over =
    left.tokens !== null && left.tokens <= 0
      ? `its tokens of the day are used: ${usedTokens} of ${tokens}`
      : left.cost !== null && left.cost <= 0
        ? `its cost of the day is used: $${usedCost.toFixed(2)} of $${cost?.toFixed(2)}`
        : null;
  return { ...left, over };
}

/** Instants that are further apart are not on one day, in any zone and however their texts are written. */
const NEAR_MS = 48 * 60 * 60 * 1000;

/** What the job's runs have used on the day of this instant. */
export function usedOnDay(job: StoredJob, ledger: Ledger, at: number): { tokens: number; cost: number } {
  const zone = ("tz" in job.trigger ? job.trigger.tz : undefined) ?? localZone();
  const day = dayOf(at, zone);
  // A job may have thousands of rows, and the date of an instant takes microseconds: texts are compared first.
  const [from, to] = [isoOf(at - NEAR_MS), isoOf(at + NEAR_MS)];
  const used = { tokens: 0, cost: 0 };
  for (const row of ledger.rows(job.id)) {
    if (row.started === null || row.started < from || row.started > to) continue;
    if (dayOf(Date.parse(row.started), zone) !== day) continue;
    // A parked run goes on some time, with all that it may use.
    const held = row.state === "parked" ? row.reserved : undefined;
    used.tokens += Math.max(row.tokens_used, held?.tokens ?? 0);
    used.cost += Math.max(row.cost_usd ?? 0, held?.cost ?? 0);
  }
  return used;
}
