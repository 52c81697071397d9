/** The method resume. */

import { firstMessage } from "../../kernel/conversation/conversations.ts";
import { SyscallError } from "../../plugin/index.ts";
import type { BegunRun } from "../../protocol/methods.ts";
import { ResumeRequest } from "../../protocol/run.ts";
import { type StreamReply, streamMethod } from "./method.ts";
import { findRun, requireAgent } from "./shared/find-run.ts";
import { messageKey } from "./shared/message-key.ts";
import { refuseInside } from "./shared/refuse-inside.ts";
import { answerRun, canAnswer, streamRun } from "./shared/stream-events.ts";
import { whileTaken } from "./shared/while-taken.ts";

/** A resumed run, a fork or an adopted one. */
interface Resumed extends BegunRun {
  /** The last complete step: the next one is made now. */
  resumed_from_step: number;
  /** Set for a fork: the run from which it was made. */
  origin_uuid?: string;
}

/**
 * Resumes a run that has ended or was suspended, or forks any run. The answer names the step after which it continues
 * (seeds 5.4); with `stream` the events of the run follow, like those of a spawn. A failure before the new PID exists leaves the run unchanged. A foreign run can't be
 * resumed; with `adopt` a new run begins with its conversation.
 */
export const resume = streamMethod({
  payload: ResumeRequest,
  async handle(payload, services, out: StreamReply<Resumed>, caller): Promise<void> {
    refuseInside(caller, insideRun);
    const { adopt } = payload;
    for (const name of ["attached", "key"] as const) {
      if (payload[name] === undefined || payload.input !== undefined) continue;
      throw new SyscallError("INVALID", `${name} needs input: it belongs to a message.`);
    }
    // The record of a run is never changed: continuing from an earlier step needs a fork.
    if (payload.from_step !== undefined && !payload.fork && !adopt) {
      const message = "from_step needs fork: a resumed run keeps all of its steps.";
      throw new SyscallError("INVALID", message);
    }
    const found = await findRun(services, payload);
    requireAgent(found, "resumed");
    const { info } = found;
    const run = await (await services.history()).byUuid(info.uuid, payload.cwd);
    if (!run) throw new SyscallError("NOT_FOUND", `Nothing is on disk of run ${info.uuid}.`);
    if (adopt && !run.info.foreign) {
      const message = `Run ${info.uuid} is your own: there is nothing to adopt. \`rnix resume ${info.uuid}\` resumes it.`;
      throw new SyscallError("INVALID", message);
    }
    const { from_step, quiet, stream } = payload;
    const input = payload.input && firstMessage(payload.input, payload.attached).content;
    // No program of a run comes here.
    const key = messageKey(payload.key, { text: input ?? "" }, undefined);
    const fork = payload.fork || adopt ? { step: from_step, adopt } : undefined;
    const begin = async () => {
      const plan = adopt ? services.planAdopt(run, payload) : services.planResume(run, payload);
      const { agent, opts, notices } = await plan;
      const given = { ...opts, notices, untilAnswer: payload.until_answer };
      const resumed = await services.kernel.lifecycle.resume(info.uuid, agent, given, { input, key, fork });
      return { ...resumed, because: opts.provider?.because };
    };
    // Of two that resume it at once, the second finds it alive.
    const { pid, uuid, step, because } = await whileTaken(services, begin, async () => {
      const now = await findRun(services, { uuid: info.uuid, cwd: payload.cwd });
      return !now.live && now.run.records.claimant(info.uuid) !== null;
    });
    const answer: Resumed = { pid, uuid, resumed_from_step: step, ...(fork && { origin_uuid: info.uuid }) };
    if (!stream) return answerRun(services, answer, out);
    const answers = canAnswer(payload, caller);
    await streamRun(services, answer, { because, answers, quiet }, out);
  },
});

function insideRun(unit: string): string {
  return `A run can't be resumed from inside another (${unit}): it would have rights of its own. Resume it from your own terminal.`;
}
