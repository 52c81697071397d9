import type { Caller, Outgoing } from "../dispatch.ts";
import { noticeEvent, spawnEvent, toStreamEvent, until } from "../events.ts";
import { refOf } from "../locate.ts";
import type { Payload, ProcRef } from "../protocol.ts";
import type { System } from "../system.ts";

/**
 * Creates a process and streams it to its end; `complete` is always the last (seeds 5.7). A client that goes
 * away, or asked to be detached, leaves the run going on. What fails before there is a PID is answered.
 */
export async function spawn(
  payload: Payload<"spawn">,
  system: System,
  out: Outgoing<ProcRef>,
  caller: Caller,
): Promise<void> {
  const { agent, opts, notices } = await system.plan(payload, caller.unit);
  const pid = await system.kernel.spawn(payload.intent, agent, opts);
  const ref = refOf(system.kernel.procInfo(pid));
  if (payload.detach) return out.accept(ref);
  // Not a tick after the spawn: whoever watches from the start misses nothing.
  const channel = system.kernel.attach(pid);
  try {
    await out.accept(ref);
    for await (const event of until(channel, out.gone)) {
      if (event.type !== "spawn") {
        await out.send(toStreamEvent(ref, event, channel.dropped));
        continue;
      }
      await out.send(spawnEvent(event.info, opts.provider?.because));
      for (const notice of notices) await out.send(noticeEvent(ref, notice));
    }
  } finally {
    channel.end();
  }
}
