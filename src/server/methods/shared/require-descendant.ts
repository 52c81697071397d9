import type { ProcInfo } from "../../../kernel/types.ts";
import { SyscallError } from "../../../plugin/index.ts";
import type { Services } from "../../services.ts";
import type { FoundRun } from "./find-run.ts";

/**
 * What a run's own programs may do to others: to itself and to what stands below it, whatever they like. PERMISSION
 * for any other, so that one project's agent never ends what belongs to another. A person, who has no `unit`, may do
 * it to all.
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

/** One that has ended is below whom it had as its parent, if that lives. Each counts as below itself. */
function standsBelow(unit: string, { info, live }: FoundRun, all: ProcInfo[]): boolean {
  const parent = ({ ppid }: ProcInfo): ProcInfo | undefined => all.find(({ pid }) => pid === ppid);
  let above = live ? info : all.find(({ uuid }) => uuid === info.parent_uuid);
  while (above && above.uuid !== unit) above = parent(above);
  return above !== undefined;
}
