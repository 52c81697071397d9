/** Which runs a listing has, for live and recorded ones alike. */

import type { ProcInfo } from "../../kernel/types.ts";
import type { RunStatus } from "../../protocol/methods.ts";
import type { RunFilter } from "../../store/runs/run-lists.ts";

/** A filter without what only the records can tell. */
export type Selection = Omit<RunFilter, "parent" | "pid">;

export function statusOf({ state, exit_code, is_paused }: ProcInfo): RunStatus {
  if (state === "suspended") return "suspended";
  if (exit_code !== null) return exit_code === 0 ? "done" : "failed";
  return is_paused ? "paused" : "running";
}

export function isSelected(info: ProcInfo, selection: Selection): boolean {
  const { project, agent, status, verdict, since_ms, until_ms } = selection;
  return (
    (project === undefined || info.project === project) &&
    (agent === undefined || info.agent === agent) &&
    (status === undefined || statusOf(info) === status) &&
    (verdict === undefined || info.exit_reason === verdict) &&
    (since_ms === undefined || info.created_at_ms >= since_ms) &&
    (until_ms === undefined || info.created_at_ms < until_ms)
  );
}
