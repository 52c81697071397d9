/** Which runs a request may see: from inside a sandbox, the run itself and what is below it. Their files are hidden, too. */

import type { ProcInfo } from "../../../kernel/types.ts";
import { SyscallError } from "../../../plugin/index.ts";
import type { Services } from "../../services.ts";

/** Fails with PERMISSION for another run. */
export function requireVisible(services: Services, { info }: { info: ProcInfo }): void {
  if (visibleTo(services)?.(info) !== false) return;
  const message = `PID ${info.pid} (${info.uuid}) is another run: in a sandbox, only the run itself and what is below it can be seen. For any other, use your own terminal, or a run with --sandbox off.`;
  throw new SyscallError("PERMISSION", message);
}

/** Undefined: the request sees all runs. */
export function visibleTo(services: Services): ((info: ProcInfo) => boolean) | undefined {
  const unit = viewerOf(services);
  if (unit === undefined) return undefined;
  const all = services.kernel.processes.infos();
  if (!all.some(({ uuid, sandbox }) => uuid === unit && sandbox !== "none")) return undefined;
  return (info) => standsBelow(unit, info, all);
}

/** What a run has left behind is in no sandbox any more: with the run, that has ended. */
function viewerOf({ viewer }: Services): string | undefined {
  try {
    return viewer?.();
  } catch (thrown) {
    if (thrown instanceof SyscallError) return undefined;
    throw thrown;
  }
}

/** An ended process counts as a descendant of its parent if that is alive. Each counts as its own descendant. */
export function standsBelow(unit: string, info: ProcInfo, all: readonly ProcInfo[]): boolean {
  let above = all.find(({ uuid }) => uuid === info.uuid) ?? all.find(({ uuid }) => uuid === info.parent_uuid);
  while (above && above.uuid !== unit) {
    const { ppid } = above;
    above = all.find(({ pid }) => pid === ppid);
  }
  return above !== undefined;
}
