/** Processes as lists and details show them. */

import type { ProcInfo } from "../../../kernel/types.ts";
import type { ListedProc } from "../../../protocol/methods.ts";
import { statusOf } from "../../../store/runs/run-row.ts";
import type { Services } from "../../services.ts";

/** Adds what people see of a process: how it stands, and what it does now. */
export function listedProc({ kernel }: Pick<Services, "kernel">, info: ProcInfo): ListedProc {
  const units = kernel.units.list(info.uuid);
  const doing = info.ended_at_ms === null ? kernel.doing(info) : null;
  return { ...info, status: statusOf(info), doing, ...(units.length > 0 && { units }) };
}
