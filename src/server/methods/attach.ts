/** The method attach. */

import { z } from "zod";
import { Target } from "../../protocol/fields.ts";
import type { ProcRef } from "../../protocol/methods.ts";
import type { LogEntry } from "../../run/live-event.ts";
import type { StreamReply } from "../connection/stream-reply.ts";
import { streamMethod } from "./method.ts";
import { findOtherRun } from "./shared/find-own-run.ts";
import { recordsOf, refOf } from "./shared/find-run.ts";
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
    const { after } = payload;
    const o = { answers: canAnswer(payload, caller) };
    // Attached before the records are read, so that no entry is missed in between.
    const channel = found.live ? services.kernel.attach(found.pid, o) : undefined;
    const logAfter = async (n: number) => new RunLog(await recordsOf(services, found), n);
    const send = async (entries: AsyncIterable<LogEntry>, ...others: LogEntry["kind"][]): Promise<void> => {
      for await (const payload of entries)
        if (!others.includes(payload.kind)) await out.send({ type: "log_entry", payload });
    };
    try {
      let log = after === undefined ? undefined : await logAfter(after);
      await out.accept(ref);
      // Units have events of their own, and messages that are read an entry before they are recorded.
      if (log) await send(log.recorded(), "unit");
      let sent = 0;
      const { info } = found;
      const ended = [{ event: "spawn", info } as const, { event: "complete", info } as const];
      for await (const event of channel ? until(channel, out.gone) : ended) {
        if (channel && channel.dropped > 0) log ??= await logAfter(sent);
        const n = event.event === "log" ? event.entry.n : undefined;
        if (log && (n !== undefined || event.event === "complete"))
          await send(log.recorded(n), "unit", "inbox");
        sent = n ?? sent;
        if (!log || n === undefined) await out.send(toStreamEvent(ref, event, channel?.dropped));
      }
    } finally {
      channel?.end();
    }
  },
});
