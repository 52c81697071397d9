/** Limits programs inside a run to that run and its descendants. */

import type { ProcInfo } from "../../../kernel/types.ts";
import { SyscallError } from "../../../plugin/index.ts";
import type { Services } from "../../services.ts";
import type { FoundRun } from "./find-run.ts";

/**
 * Limits programs inside a run to that run and its descendants. Fails with PERMISSION for any other, so that an agent
 * never ends the runs of another project. A user, who has no `unit`, may act on all.
 */
export function requireDescendant(
  system: Services,
  unit: string | undefined,
  found: FoundRun,
  toDo: string,
): void {
  if (unit === undefined || standsBelow(unit, found, system.kernel.processes.infos())) return;
  const { pid, uuid } = found.info;
  throw new SyscallError(
    "PERMISSION",
    `PID ${pid} (${uuid}) was not spawned by the run that asks (${unit}): from inside a run only itself and what is below it can be ${toDo}. For any other, use your own terminal.`,
  );
}

/** An ended process counts as a descendant of its parent if that is alive. Each counts as its own descendant. */
function standsBelow(unit: string, { info, live }: FoundRun, all: ProcInfo[]): boolean {
  const parent = ({ ppid }: ProcInfo): ProcInfo | undefined => all.find(({ pid }) => pid === ppid);
  let above = live ? info : all.find(({ uuid }) => uuid === info.parent_uuid);
  while (above && above.uuid !== unit) above = parent(above);
  return above !== undefined;
}
