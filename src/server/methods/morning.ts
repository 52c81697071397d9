/** The method morning: what ran in all projects since a time. */

import { z } from "zod";
import type { ProcInfo } from "../../kernel/types.ts";
import { type LedgerRow, SyscallError } from "../../plugin/index.ts";
import type { Services } from "../services.ts";
import { method } from "./method.ts";
import { openAsks } from "./shared/open-asks.ts";
import { silentJobs } from "./shared/silent-jobs.ts";
import { visibleTo } from "./shared/visible-runs.ts";

/** Rows of the ledger and runs in one answer; the newest stay. */
const MAX_ROWS = 2000;
const MAX_RUNS = 200;
/** The newest runs that are looked at, children included. */
const MAX_LOOKED = 1000;
const MAX_ANSWER = 300;
const MAX_REASON = 500;

/** A run that no job has started. */
interface MorningRun
  extends Pick<ProcInfo, "uuid" | "pid" | "agent" | "project" | "intent" | "state" | "result">,
    Pick<ProcInfo, "exit_code" | "exit_reason" | "tokens_used" | "cost_usd"> {
  /** Why it failed or was suspended. */
  reason: string | null;
  ended_at_ms: number;
}

/** What ran in all projects since a time, what waits for the user, and which jobs don't run. */
export const morning = method({
  payload: () => z.object({ since_ms: z.int().nonnegative() }),
  async handle({ since_ms }, services, caller) {
    if (visibleTo(services)) {
      const message = "A run in a sandbox sees no other runs, and so no morning of all.";
      throw new SyscallError("PERMISSION", message);
    }
    const now = services.clock.now();
    const { schedules } = services;
    const jobs = (await schedules?.list({ all_projects: true })) ?? [];
    const rows = (await schedules?.history({ since_ms, limit: MAX_ROWS, all_projects: true })) ?? [];
    // A run answers no question, so it sees none.
    const asks = caller.unit() === undefined ? await openAsks(services) : [];
    return {
      since_ms,
      now_ms: now,
      jobs,
      rows: rows.map(shortened),
      ...(await otherRuns(services, since_ms)),
      asks,
      silent: await silentJobs(services, jobs, now),
    };
  },
});

function shortened({ result, reason, ...row }: LedgerRow): LedgerRow {
  return {
    ...row,
    reason: reason?.slice(0, MAX_REASON) ?? null,
    ...(result !== undefined && { result: result.slice(0, MAX_ANSWER) }),
  };
}

/** Ended and suspended runs of agents that neither a job nor another run has started. */
async function otherRuns({ history, kernel }: Services, since_ms: number) {
  const live = (): readonly ProcInfo[] => kernel.processes.listProcs();
  const { runs } = await (await history()).list({ limit: MAX_LOOKED, newest: true, live });
  const ended = runs.filter(
    ({ kind, parent_uuid, job, ended_at_ms, foreign, moved_from }) =>
      kind === "agent" &&
      parent_uuid === null &&
      job === null &&
      !foreign &&
      moved_from === undefined &&
      ended_at_ms !== null &&
      ended_at_ms >= since_ms,
  );
  const watched = ended.filter(({ chat, attended }) => chat || attended);
  const costs = watched.flatMap(({ cost_usd }) => cost_usd ?? []);
  return {
    runs: ended
      .filter((run) => !watched.includes(run))
      .slice(-MAX_RUNS)
      .map(morningRun),
    // Runs that a person has watched: conversations, and runs from a terminal.
    interactive: {
      runs: watched.length,
      failed: watched.filter(({ exit_code, suspended }) => !suspended && exit_code !== 0).length,
      tokens_used: watched.reduce((sum, { tokens_used }) => sum + tokens_used, 0),
      cost_usd: costs.length === 0 ? null : costs.reduce((sum, cost) => sum + cost, 0),
    },
  };
}

function morningRun(info: ProcInfo): MorningRun {
  const { uuid, pid, agent, project, intent, state, exit_code, exit_reason, tokens_used, cost_usd } = info;
  const { result, error, suspended, ended_at_ms } = info;
  return {
    uuid,
    pid,
    agent,
    project,
    state,
    exit_code,
    exit_reason,
    tokens_used,
    cost_usd,
    intent: intent.slice(0, MAX_ANSWER),
    reason: (suspended?.reason ?? error?.message)?.slice(0, MAX_REASON) ?? null,
    result: result?.slice(0, MAX_ANSWER) ?? null,
    ended_at_ms: ended_at_ms ?? 0,
  };
}
