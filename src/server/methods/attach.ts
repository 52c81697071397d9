/** The method attach. */

import { z } from "zod";
import { refOf, Target } from "../../protocol/fields.ts";
import type { ProcRef } from "../../protocol/methods.ts";
import type { LogEntry } from "../../run/live-event.ts";
import { type StreamReply, streamMethod } from "./method.ts";
import { findOtherRun } from "./shared/find-own-run.ts";
import { recordsOf } from "./shared/find-run.ts";
import { RunLog } from "./shared/run-log.ts";
import { canAnswer, toStreamEvent, until } from "./shared/stream-events.ts";

/**
 * Follows a run to its end. An ended run is answered from its record. Log entries that a slow client missed are sent
 * later, from the record.
 */
export const attach = streamMethod({
  payload: () =>
    Target().extend({
      /** A person is at the client's terminal, who can answer questions. */
      attended: z.boolean().optional(),
      /** The `n` of the last log entry that the client has got: those recorded since come first. */
      after: z.number().nonnegative().optional(),
    }),
  async handle(payload, services, out: StreamReply<ProcRef>, caller): Promise<void> {
    const found = await findOtherRun(services, payload, caller, "followed");
    const ref = refOf(found.info);
    const o = { answers: canAnswer(payload, caller) };
    // Attached before the records are read, so that no entry is missed in between.
    const channel = found.live ? services.kernel.attach(found.pid, o) : undefined;
    // The number of the last log entry that the client has.
    let { after: sent = 0 } = payload;
    let log: RunLog | undefined;
    const catchUp = async (...others: LogEntry["kind"][]): Promise<void> => {
      log ??= new RunLog(await recordsOf(services, found), sent);
      for await (const entry of log.recorded()) {
        const { n, kind } = entry;
        if (n !== undefined && n <= sent) continue;
        sent = n ?? sent;
        if (!others.includes(kind)) await out.send({ type: "log_entry", payload: entry });
      }
    };
    try {
      await out.accept(ref);
      // Units have events of their own, and messages that are read an entry before they are recorded.
      if (payload.after !== undefined) await catchUp("unit");
      let dropped = 0;
      const { info } = found;
      const ended = [{ event: "spawn", info } as const, { event: "complete", info } as const];
      for await (const event of channel ? until(channel, out.gone) : ended) {
        const n = event.event === "log" ? event.entry.n : undefined;
        const missed = channel?.dropped ?? 0;
        if (missed > dropped && (n !== undefined || event.event === "complete")) {
          // All that is recorded now, in one reading: an entry that is not is sent by a later one.
          await catchUp("unit", "inbox");
          if (n === undefined || n <= sent) dropped = missed;
          if (n !== undefined) continue;
        }
        if (n !== undefined && n <= sent) continue;
        sent = n ?? sent;
        await out.send(toStreamEvent(ref, event, channel?.dropped));
      }
    } finally {
      channel?.end();
    }
  },
});
