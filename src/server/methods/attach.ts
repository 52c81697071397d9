/** The method attach. */

import { z } from "zod";
import { Target } from "../../protocol/fields.ts";
import type { ProcRef } from "../../protocol/methods.ts";
import type { StreamReply } from "../connection/stream-reply.ts";
import { streamMethod } from "./method.ts";
import { findOtherRun } from "./shared/find-own-run.ts";
import { refOf } from "./shared/find-run.ts";
import { completeEvent, spawnEvent, toStreamEvent, until } from "./shared/stream-events.ts";
import { canAnswer } from "./shared/stream-run.ts";

/** Follows a run to its end. An ended run is answered from its record. */
export const attach = streamMethod({
  /** `attended`: a person is at the client's terminal, who can answer questions. */
  payload: () => Target().extend({ attended: z.boolean().optional() }),
  async handle(payload, services, out: StreamReply<ProcRef>, caller): Promise<void> {
    const found = await findOtherRun(services, payload, caller, "followed");
    const ref = refOf(found.info);
    if (!found.live) {
      await out.accept(ref);
      await out.send(spawnEvent(found.info));
      await out.send(completeEvent(found.info));
      return;
    }
    const channel = services.kernel.attach(found.pid, { answers: canAnswer(payload, caller) });
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
