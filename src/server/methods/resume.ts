import { SyscallError } from "../../plugin/index.ts";
import type { Answers, Payload } from "../../protocol/methods.ts";
import type { Caller } from "../connection/caller.ts";
import type { StreamReply } from "../connection/stream-reply.ts";
import type { Services } from "../services.ts";
import { findRun, requireAgent } from "./find-run.ts";
import { streamRun } from "./spawn.ts";

/**
 * Goes on with a run that has ended or was suspended, or forks any, and streams it to its end like a spawn. The answer tells
 * after which step. What fails before there is a new PID is answered, and leaves the run as it was. A foreign run is
 * not resumed; with `adopt` a new run begins with its conversation.
 */
export async function resume(
  payload: Payload<"resume">,
  system: Services,
  out: StreamReply<Answers["resume"]>,
  caller: Caller,
): Promise<void> {
  const unit = caller.unit();
  if (unit !== undefined) throw fromInside(unit);
  const { adopt } = payload;
  if (payload.from_step !== undefined && !payload.fork && !adopt) throw needsFork();
  const found = await findRun(system, payload);
  requireAgent(found, "gone on with");
  const { info } = found;
  const run = await system.history.byUuid(info.uuid, payload.cwd);
  if (!run) throw new SyscallError("NOT_FOUND", `Nothing is on disk of run ${info.uuid}.`);
  if (adopt && !run.info.foreign) throw isOwn(info.uuid);
  const plan = adopt ? system.planAdopt(run, payload) : system.planResume(run, payload);
  const { agent, opts, notices } = await plan;
  const { input, detach, from_step } = payload;
  const fork = payload.fork || adopt ? { step: from_step, adopt } : undefined;
  const { pid, uuid, step } = await system.kernel.lifecycle.resume(info.uuid, agent, opts, { input, fork });
  const answer = { pid, uuid, resumed_from_step: step, ...(fork && { origin_uuid: info.uuid }) };
  const what = adopt ? "a new run with the conversation of the foreign run" : "a fork of";
  const told = fork ? [`${what} ${info.uuid}, which goes on after step ${step} of it`, ...notices] : notices;
  await streamRun(system, answer, { because: opts.provider?.because, notices: told, detach }, out);
}

/** What a run has done is recorded for good: another way on from its middle is another run. */
function needsFork(): SyscallError {
  return new SyscallError("INVALID", "from_step needs fork: the later steps of a run stay its own.");
}

function isOwn(uuid: string): SyscallError {
  return new SyscallError(
    "INVALID",
    `Run ${uuid} is your own: there is nothing to adopt. \`rnix resume ${uuid}\` resumes it.`,
  );
}

function fromInside(unit: string): SyscallError {
  return new SyscallError(
    "PERMISSION",
    `A run can't be resumed from inside another (${unit}): it would have rights of its own. Resume it from a terminal of yours.`,
  );
}
