/** The method replay. */

import { refOf } from "../../protocol/fields.ts";
import type { BegunRun } from "../../protocol/methods.ts";
import { ReplayRequest } from "../../protocol/run.ts";
import { foreignLines, requireOwn } from "../../store/runs/own-run.ts";
import { META } from "../../store/runs/run-files.ts";
import { planReplay } from "../plan/plan-replay.ts";
import { type StreamReply, streamMethod } from "./method.ts";
import { findRun, recordsOf, requireAgent } from "./shared/find-run.ts";
import { canAnswer, streamRun } from "./shared/stream-events.ts";

/** Replays a recorded run with its agent's current definition, and streams the new run to its end. */
export const replay = streamMethod({
  payload: ReplayRequest,
  async handle(payload, services, out: StreamReply<BegunRun>, caller): Promise<void> {
    const found = await findRun(services, payload);
    requireAgent(found, "replayed");
    const run = await recordsOf(services, found);
    // Its checks, variables and rights are part of what is played.
    requireOwn(run.info);
    if ((await run.records.meta(run.info.uuid))?.foreign) throw foreignLines(run.info.uuid, META, 1);
    const { agent, opts, notices } = await planReplay(run, payload, (request) =>
      services.plan(request, caller.unit()),
    );
    const pid = await services.kernel.processes.spawn(run.info.intent, agent, { ...opts, notices });
    const ref = refOf(services.kernel.processes.identity(pid));
    const answers = canAnswer(payload, caller);
    await streamRun<BegunRun>(
      services,
      ref,
      { because: `plays ${run.info.uuid}`, answers, quiet: payload.quiet },
      out,
    );
  },
});
