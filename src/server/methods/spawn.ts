import type { Payload, ProcRef } from "../../protocol/methods.ts";
import type { Caller } from "../connection/caller.ts";
import type { StreamReply } from "../connection/stream-reply.ts";
import type { Services } from "../services.ts";
import { refOf } from "./find-run.ts";
import { noticeEvent, spawnEvent, toStreamEvent, until } from "./stream-events.ts";

/**
 * Creates a process and streams it to its end; `complete` is always the last (seeds 5.7). A client that goes
 * away, or asked to be detached, leaves the run going on. What fails before there is a PID is answered.
 */
export async function spawn(
  payload: Payload<"spawn">,
  system: Services,
  out: StreamReply<ProcRef>,
  caller: Caller,
): Promise<void> {
  const { agent, opts, notices } = await system.plan(payload, caller.unit());
  const pid = await system.kernel.processes.spawn(payload.intent, agent, opts);
  const ref = refOf(system.kernel.processes.info(pid));
  await streamRun(system, ref, { because: opts.provider?.because, notices, detach: payload.detach }, out);
}

interface Told {
  /** Why this provider. */
  because: string | undefined;
  notices: readonly string[];
  detach: boolean | undefined;
}

/** Answers, and tells what the process does until it ends. Called in the same tick as it began: nothing is missed. */
export async function streamRun<A extends ProcRef>(
  system: Services,
  answer: A,
  { because, notices, detach }: Told,
  out: StreamReply<A>,
): Promise<void> {
  if (detach) return out.accept(answer);
  const ref = { pid: answer.pid, uuid: answer.uuid };
  const channel = system.kernel.attach(ref.pid);
  try {
    await out.accept(answer);
    for await (const event of until(channel, out.gone)) {
      if (event.type !== "spawn") {
        await out.send(toStreamEvent(ref, event, channel.dropped));
        continue;
      }
      await out.send(spawnEvent(event.info, because));
      for (const notice of notices) await out.send(noticeEvent(ref, notice));
    }
  } finally {
    channel.end();
  }
}
