/** The method spawn. */

import { refOf } from "../../protocol/fields.ts";
import type { BegunRun } from "../../protocol/methods.ts";
import { SpawnRequest } from "../../protocol/run.ts";
import { type StreamReply, streamMethod } from "./method.ts";
import { answerRun, canAnswer, streamRun } from "./shared/stream-events.ts";

/**
 * Creates a process and streams it to its end; `complete` is always last (seeds 5.7). The run continues if the client
 * disconnects or detaches. A failure before the PID exists is the answer.
 */
export const spawn = streamMethod({
  payload: SpawnRequest,
  async handle(payload, services, out: StreamReply<BegunRun>, caller): Promise<void> {
    const unit = caller.unit();
    // A program of a run has no person at its terminal.
    const request = unit === undefined ? payload : { ...payload, attended: undefined };
    const { agent, opts, notices } = await services.plan(request, unit);
    const pid = await services.kernel.processes.spawn(payload.intent, agent, { ...opts, notices });
    const ref = refOf(services.kernel.processes.identity(pid));
    if (payload.detach) return answerRun<BegunRun>(services, ref, out);
    const answers = canAnswer(payload, caller);
    const { quiet } = payload;
    await streamRun<BegunRun>(services, ref, { because: opts.provider?.because, answers, quiet }, out);
  },
});
