import type { Answers, Payload, ProcRef } from "../../protocol/methods.ts";
import { foreignLines, requireOwn } from "../../store/runs/own-run.ts";
import { META } from "../../store/runs/run-writer.ts";
import type { Caller } from "../connection/caller.ts";
import type { StreamReply } from "../connection/stream-reply.ts";
import { planReplay } from "../plan/plan-replay.ts";
import { compareRuns as differencesOf } from "../records/compare-runs.ts";
import type { Services } from "../services.ts";
import { findRun, recordsOf, refOf, requireAgent } from "./find-run.ts";
import { streamRun } from "./spawn.ts";

/** Plays a recorded run again, by its agent's definition of today, and streams the new run to its end. */
export async function replay(
  payload: Payload<"replay">,
  system: Services,
  out: StreamReply<ProcRef>,
  caller: Caller,
): Promise<void> {
  const found = await findRun(system, payload);
  requireAgent(found, "replayed");
  const run = await recordsOf(system, found);
  // Its checks, variables and rights are part of what is played.
  requireOwn(run.info);
  if ((await run.records.meta(run.info.uuid))?.foreign) throw foreignLines(run.info.uuid, META, 1);
  const { agent, opts, notices } = await planReplay(run, payload, (request) =>
    system.plan(request, caller.unit()),
  );
  const pid = await system.kernel.processes.spawn(run.info.intent, agent, opts);
  const ref = refOf(system.kernel.processes.info(pid));
  await streamRun(system, ref, { because: `plays ${run.info.uuid}`, notices, detach: undefined }, out);
}

export async function compareRuns(
  { replayed, ...target }: Payload<"compare_runs">,
  system: Services,
): Promise<Answers["compare_runs"]> {
  const before = await recordsOf(system, await findRun(system, target));
  const after = await recordsOf(system, await findRun(system, { uuid: replayed, cwd: target.cwd }));
  return { differences: await differencesOf(before, after) };
}
