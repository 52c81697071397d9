import { Target } from "../../protocol/fields.ts";
import type { ProcRef } from "../../protocol/methods.ts";
import type { StreamReply } from "../connection/stream-reply.ts";
import { streamMethod } from "./method.ts";
import { findLiveRun, refOf } from "./shared/find-run.ts";
import { completeEvent, spawnEvent, toStreamEvent, until } from "./shared/stream-events.ts";

/** Follows a run to its end. An ended run is answered from its record. */
export const attach = streamMethod({
  payload: Target,
  async handle(payload, services, out: StreamReply<ProcRef>): Promise<void> {
    const found = await findLiveRun(services, payload, "followed");
    const ref = refOf(found.info);
    if (!found.live) {
      await out.accept(ref);
      await out.send(spawnEvent(found.info));
      await out.send(completeEvent(found.info));
      return;
    }
    const channel = services.kernel.attach(found.pid);
    try {
      await out.accept(ref);
      for await (const event of until(channel, out.gone)) {
        await out.send(toStreamEvent(ref, event, channel.dropped));
      }
    } finally {
      channel.end();
    }
  },
});
