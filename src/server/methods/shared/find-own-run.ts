/** Finds the process that a request acts on, and limits programs inside a run to that run and its descendants. */

import { SyscallError } from "../../../plugin/index.ts";
import { refOf } from "../../../protocol/fields.ts";
import type { ProcRef, Target } from "../../../protocol/methods.ts";
import type { Caller } from "../../connection/connection.ts";
import type { Services } from "../../services.ts";
import { type FoundRun, findLiveRun, requireAgent } from "./find-run.ts";
import { standsBelow } from "./visible-runs.ts";

/**
 * Finds a process of this kernel or a record. Fails with PERMISSION for one that is not below `unit`, the run from which
 * the request comes.
 */
export async function findOwnRun(
  services: Services,
  target: Target,
  unit: string | undefined,
  toDo: string,
): Promise<FoundRun> {
  const found = await findLiveRun(services, target, toDo);
  requireDescendant(services, unit, found, toDo);
  return found;
}

/** The same for the run of an agent. Fails with INVALID for a supervisor and for a program. */
export async function findOwnAgent(
  services: Services,
  target: Target,
  unit: string | undefined,
  toDo: string,
): Promise<FoundRun> {
  const found = await findOwnRun(services, target, unit, toDo);
  requireAgent(found, toDo);
  return found;
}

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
  if (unit === undefined || standsBelow(unit, found.info, system.kernel.processes.infos())) return;
  const { pid, uuid } = found.info;
  const message = `PID ${pid} (${uuid}) was not spawned by the run that asks (${unit}): from inside a run only itself and what is below it can be ${toDo}. For any other, use your own terminal.`;
  throw new SyscallError("PERMISSION", message);
}

/**
 * Finds a run whose end the client waits for. Fails with INVALID for the client's own run: it ends only after the
 * programs of its call, so both would wait without an end.
 */
export async function findOtherRun(
  services: Services,
  target: Target,
  caller: Caller,
  toDo: string,
): Promise<FoundRun> {
  const found = await findLiveRun(services, target, toDo);
  if (!found.live || found.info.uuid !== unitOrUnknown(caller)) return found;
  const { pid } = found.info;
  const message = `PID ${pid} can't be ${toDo} from inside itself: the command would wait for its own end. \`rnix show ${pid}\` prints its state at once.`;
  throw new SyscallError("INVALID", message);
}

/** A program of a run that has ended, or of another kernel's, may still follow the runs of this one. */
function unitOrUnknown(caller: Caller): string | undefined {
  try {
    return caller.unit();
  } catch (thrown) {
    if (thrown instanceof SyscallError) return undefined;
    throw thrown;
  }
}

/**
 * Fails with NOT_FOUND for a unit of no live process, and with PERMISSION for one of a process that is not below
 * `inside`, the run from which the request comes.
 */
export async function findUnit(
  services: Services,
  id: string,
  inside: string | undefined,
  toDo: string,
): Promise<ProcRef> {
  const pid = services.kernel.units.ownerOf(id);
  const { info } = await findOwnRun(services, { pid }, inside, toDo);
  return refOf(info);
}
