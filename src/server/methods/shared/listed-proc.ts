/** Processes as lists and details show them. */

import type { ProcInfo } from "../../../kernel/types.ts";
import type { ListedProc, RunStatus } from "../../../protocol/methods.ts";
import type { Services } from "../../services.ts";

/** Adds what people see of a process: how it stands, and what it does now. */
export function listedProc({ kernel }: Pick<Services, "kernel">, info: ProcInfo): ListedProc {
  return { ...info, status: statusOf(info), doing: info.ended_at_ms === null ? kernel.doing(info) : null };
}

export function statusOf({ state, exit_code, is_paused }: ProcInfo): RunStatus {
  if (state === "suspended") return "suspended";
  if (exit_code !== null) return exit_code === 0 ? "done" : "failed";
  return is_paused ? "paused" : "running";
}
