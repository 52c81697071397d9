import type { Payload, ProcRef } from "../../protocol/methods.ts";
import type { StreamReply } from "../connection/stream-reply.ts";
import type { Services } from "../services.ts";
import { findLiveRun, refOf } from "./find-run.ts";
import { completeEvent, spawnEvent, toStreamEvent, until } from "./stream-events.ts";

/** Follows a run to its end. One that has ended is answered from its record. */
export async function attach(
  payload: Payload<"attach">,
  system: Services,
  out: StreamReply<ProcRef>,
): Promise<void> {
  const found = await findLiveRun(system, payload, "followed");
  const ref = refOf(found.info);
  if (!found.live) {
    await out.accept(ref);
    await out.send(spawnEvent(found.info));
    await out.send(completeEvent(found.info));
    return;
  }
  const channel = system.kernel.attach(found.pid);
  try {
    await out.accept(ref);
    for await (const event of until(channel, out.gone)) {
      await out.send(toStreamEvent(ref, event, channel.dropped));
    }
  } finally {
    channel.end();
  }
}
