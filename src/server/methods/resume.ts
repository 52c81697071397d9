import { SyscallError } from "../../plugin/index.ts";
import type { Caller, Outgoing } from "../dispatch.ts";
import { locate } from "../locate.ts";
import type { Answers, Payload } from "../protocol.ts";
import type { System } from "../system.ts";
import { streamRun } from "./spawn.ts";

/**
 * Goes on with a run that has ended or was suspended, and streams it to its end like a spawn. The answer tells
 * after which step. What fails before there is a new PID is answered, and leaves the run as it was.
 */
export async function resume(
  payload: Payload<"resume">,
  system: System,
  out: Outgoing<Answers["resume"]>,
  { unit }: Caller,
): Promise<void> {
  if (unit !== undefined) throw fromInside(unit);
  const { info } = await locate(system, payload);
  const run = await system.history.byUuid(info.uuid, payload.cwd);
  if (!run) throw new SyscallError("NOT_FOUND", `Nothing is on disk of run ${info.uuid}.`);
  const { agent, opts, notices } = await system.planResume(run, payload);
  const { pid, step } = await system.kernel.resume(info.uuid, agent, opts, { input: payload.input });
  const answer = { pid, uuid: info.uuid, resumed_from_step: step };
  await streamRun(system, answer, { because: opts.provider?.because, notices, detach: payload.detach }, out);
}

function fromInside(unit: string): SyscallError {
  return new SyscallError(
    "PERMISSION",
    `A run can't be resumed from inside a process (RNIX_UNIT=${unit}): it would have rights of its own. Resume it from a terminal of yours.`,
  );
}
