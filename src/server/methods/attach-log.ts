/** The method attach_log. */

import { z } from "zod";
import { retryEntry } from "../../kernel/events/log-entry.ts";
import type { Channel } from "../../lib/channel.ts";
import { refOf, Target } from "../../protocol/fields.ts";
import type { ProcRef, StreamEvent } from "../../protocol/methods.ts";
import type { LiveEvent, LogEntry } from "../../run/live-event.ts";
import type { DamageCollector } from "../../store/files/damaged-lines.ts";
import { damageOf, type Run } from "../records/recorded-run.ts";
import type { Services } from "../services.ts";
import { type StreamReply, streamMethod } from "./method.ts";
import { type FoundRun, findRun, recordsOf } from "./shared/find-run.ts";
import { endEntries, entriesOfProgram, RunLog, supervisorLog } from "./shared/run-log.ts";
import { eof, until } from "./shared/stream-events.ts";

type Entry = Extract<StreamEvent, { type: "log_entry" }>["payload"];

/**
 * Streams the log of a run: the recorded entries, then the live ones until it ends, unless `follow` is false; then eof.
 * `after`: the `n` of the last entry that the client has got; the run's next entry comes first.
 */
export const attachLog = streamMethod({
  payload: () =>
    Target().extend({ follow: z.boolean().optional(), after: z.number().nonnegative().optional() }),
  async handle({ follow = true, after, ...target }, services, out: StreamReply<ProcRef>): Promise<void> {
    const found = await findRun(services, target);
    // Attached before the records are read, so that no entry is missed in between.
    if (found.info.kind === "supervisor") {
      const channel = found.live && follow ? services.kernel.attachDebug(found.pid) : undefined;
      return stream(found, channel, services, out, (run, damage) =>
        supervisorLog(run, channel, out.gone, damage),
      );
    }
    const channel = found.live && follow ? services.kernel.attach(found.pid, { watched: "log" }) : undefined;
    const live = channel && until<LiveEvent>(channel, out.gone);
    return stream(found, channel, services, out, (run, damage) =>
      found.info.kind === "command"
        ? programLog(found, live)
        : agentLog(found, new RunLog(run, after, damage), live, services),
    );
  },
});

/** Answers, and sends the entries of a log. */
async function stream(
  found: FoundRun,
  channel: Pick<Channel<unknown>, "end" | "dropped"> | undefined,
  services: Services,
  out: StreamReply<ProcRef>,
  entries: (run: Run, damage: DamageCollector) => AsyncIterable<Entry>,
): Promise<void> {
  try {
    const run = await recordsOf(services, found);
    await out.accept(refOf(found.info));
    const damage = damageOf(run);
    for await (const payload of entries(run, damage)) await out.send({ type: "log_entry", payload });
    await out.send(eof(channel?.dropped, damage));
  } finally {
    channel?.end();
  }
}

/** The recorded entries in their order, and between them what is live only. What is recorded is read from the record. */
async function* agentLog(
  { live, info }: FoundRun,
  log: RunLog,
  events: AsyncIterable<LiveEvent> | undefined,
  { clock }: Services,
): AsyncGenerator<Entry> {
  yield* log.recorded();
  let last = live ? undefined : info;
  for await (const event of events ?? []) {
    if (event.event === "complete") last = event.info;
    const n = event.event === "log" ? event.entry.n : undefined;
    if (n === undefined || n > log.last) yield* log.recorded();
    const entry = liveOnly(event, clock.now());
    if (entry) yield entry;
  }
  if (last) yield* [...log.rest(last), ...endEntries(last)];
}

/** The entry of an event that no record holds. Messages that were read are recorded with the answer. */
function liveOnly(event: LiveEvent, now: number): LogEntry | undefined {
  if (event.event === "retry") return retryEntry(event, now);
  if (event.event !== "log" || event.entry.n !== undefined || event.entry.kind === "inbox") return undefined;
  return event.entry;
}

/** A program has no steps: its end has its last output. */
async function* programLog(
  { info }: FoundRun,
  events: AsyncIterable<LiveEvent> | undefined,
): AsyncGenerator<Entry> {
  let last = info;
  for await (const event of events ?? []) if (event.event === "complete") last = event.info;
  yield* entriesOfProgram(last);
}
