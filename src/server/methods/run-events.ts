/** The method run_events. */

import { z } from "zod";
import type { Clock, Timer } from "../../lib/clock.ts";
import { refOf, Target } from "../../protocol/fields.ts";
import type { ProcRef } from "../../protocol/methods.ts";
import type { RunWriter } from "../../store/runs/run-store.ts";
import { StoryReader } from "../../store/runs/story.ts";
import { damageOf } from "../records/recorded-run.ts";
import { storyLine } from "../records/story-line.ts";
import { type StreamReply, streamMethod } from "./method.ts";
import { findRun, recordsOf } from "./shared/find-run.ts";
import { eof } from "./shared/stream-events.ts";

/** The least time between two looks at the records of a live run. */
const EVERY_MS = 30;

/**
 * Streams the events of a run after number `after`, then those to come until the records end, unless `follow` is false;
 * then eof. All are read from the records: a client that is slow, or continues with the last `n` that it has got, misses
 * none and gets none twice. Of a run of another rnix: what is recorded now.
 */
export const runEvents = streamMethod({
  payload: () =>
    Target().extend({
      after: z.int().nonnegative().optional(),
      /** Includes messages, inputs and results. */
      bodies: z.boolean().optional(),
      follow: z.boolean().optional(),
    }),
  async handle(payload, services, out: StreamReply<ProcRef>): Promise<void> {
    const { after, bodies = false, follow = true, ...target } = payload;
    const found = await findRun(services, target);
    const run = await recordsOf(services, found);
    const { info, records } = run;
    const damage = damageOf(run);
    const reader = new StoryReader(records, info.uuid, after, damage);
    await out.accept(refOf(found.info));
    while (!out.gone.aborted) {
      const writer = follow ? records.writer(info.uuid) : undefined;
      const change = writer && nextChange(writer, services.clock, out.gone);
      const events = await reader.next();
      for (const event of events) {
        await out.send({ type: "run_event", payload: storyLine(event, info.cwd, bodies) });
      }
      if (events.length > 0) change?.cancel();
      else if (change) await change.come;
      else break;
    }
    reader.end();
    await out.send(eof(0, damage));
  },
});

/** Watches the writer from now on. `come` resolves some time after the next write, or when the client is gone. */
function nextChange(
  writer: Pick<RunWriter, "watch">,
  clock: Clock,
  gone: AbortSignal,
): { come: Promise<void>; cancel(): void } {
  const { promise, resolve } = Promise.withResolvers<void>();
  let timer: Timer | undefined;
  const cancel = (): void => {
    stop();
    timer?.cancel();
    gone.removeEventListener("abort", cancel);
    resolve();
  };
  const stop = writer.watch(() => {
    stop();
    timer ??= clock.timer(EVERY_MS, cancel);
  });
  gone.addEventListener("abort", cancel);
  if (gone.aborted) cancel();
  return { come: promise, cancel };
}
