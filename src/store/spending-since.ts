/** Computes from records what runs have used since a time. */

import type { Spent } from "./daily-spending.ts";
import type { RunStore } from "./runs/run-store.ts";
import type { ProcInfo } from "./runs/schema.ts";

/** Returns the spending of a data folder's runs since a time (Unix, ms). */
export async function spendingSince(runs: RunStore, sinceMs: number): Promise<Spent> {
  const index = await runs.index();
  const { rows } = await index.list();
  const known = new Set(rows.map(({ uuid }) => uuid));
  const recent = rows.filter(
    // The usage of a parent includes its children.
    ({ ended_at_ms, parent_uuid, foreign }) =>
      !foreign &&
      (ended_at_ms === null || ended_at_ms >= sinceMs) &&
      (parent_uuid === null || !known.has(parent_uuid)),
  );
  const sum: Spent = { tokens: 0, cost: 0 };
  for (const info of await index.infos(recent)) {
    const before =
      info.created_at_ms >= sinceMs ? { tokens: 0, cost: 0 } : await usedUntil(runs, info, sinceMs);
    sum.tokens += Math.max(0, info.tokens_used - before.tokens);
    sum.cost += Math.max(0, (info.cost_usd ?? 0) - before.cost);
  }
  return sum;
}

async function usedUntil(runs: RunStore, { uuid }: ProcInfo, ms: number): Promise<Spent> {
  const until: Spent = { tokens: 0, cost: 0 };
  for await (const { ts, so_far } of runs.everyStep(uuid)) {
    if (so_far === undefined || Date.parse(ts) >= ms) continue;
    until.tokens = so_far.tokens_used;
    until.cost = so_far.cost_usd ?? 0;
  }
  return until;
}
