/** The method attach_log. */

import { z } from "zod";
import { retryEntry, unitEntry } from "../../kernel/events/log-entry.ts";
import type { Channel } from "../../lib/channel.ts";
import { Target } from "../../protocol/fields.ts";
import type { ProcRef, StreamEvent } from "../../protocol/methods.ts";
import type { RunEvent } from "../../run/events.ts";
import type { LiveEvent, LogEntry } from "../../run/live-event.ts";
import type { DamageCollector } from "../../store/files/damaged-lines.ts";
import { UNITS } from "../../store/runs/run-files.ts";
import type { StreamReply } from "../connection/stream-reply.ts";
import { damageOf, type Run } from "../records/recorded-run.ts";
import type { Services } from "../services.ts";
import { streamMethod } from "./method.ts";
import { type FoundRun, findRun, recordsOf, refOf } from "./shared/find-run.ts";
import {
  endEntries,
  entriesOf,
  entriesOfOpenStep,
  entriesOfProgram,
  entriesOfUnits,
} from "./shared/log-entries.ts";
import { eof, until } from "./shared/stream-events.ts";
import { supervisorLog } from "./shared/supervisor-log.ts";

type Entry = Extract<StreamEvent, { type: "log_entry" }>["payload"];

/**
 * Streams the log of a run: the recorded entries, then the live ones until it ends, unless `follow` is false; then eof.
 */
export const attachLog = streamMethod({
  payload: () => Target().extend({ follow: z.boolean().optional() }),
  async handle({ follow = true, ...target }, services, out: StreamReply<ProcRef>): Promise<void> {
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
      found.info.kind === "command" ? programLog(found, live) : agentLog(found, run, live, damage, services),
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

async function* agentLog(
  { live, info }: FoundRun,
  run: Run,
  events: AsyncIterable<LiveEvent> | undefined,
  damage: DamageCollector,
  { clock }: Services,
): AsyncGenerator<Entry> {
  const wasSent = yield* recordedLog(run, damage);
  let last = live ? undefined : info;
  for await (const event of events ?? []) {
    if (event.event === "complete") last = event.info;
    const entry = liveEntry(event, clock.now());
    if (entry && !wasSent(entry)) yield entry;
  }
  if (last) yield* endEntries(last);
}

/** The entry of an event. Retries are shown live only: no record holds them. */
function liveEntry(event: LiveEvent, now: number): LogEntry | undefined {
  if (event.event === "log") return event.entry;
  if (event.event === "unit") return unitEntry(event.op, event.snapshot, event.step);
  return event.event === "retry" ? retryEntry(event, now) : undefined;
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

/** The recorded entries; returns whether a live entry was among them. */
async function* recordedLog(
  { records, info }: Run,
  damage: DamageCollector,
): AsyncGenerator<Entry, (entry: LogEntry) => boolean> {
  // Read first: what comes later is live.
  const unitLog = await records.units(info.uuid);
  damage.add(UNITS, unitLog);
  const units = entriesOfUnits(unitLog.records);
  const unitTexts = new Set(units.map(({ text }) => text));
  let open: RunEvent[] = [];
  let recorded = 0;
  for await (const event of records.story(info, damage)) {
    open.push(event);
    if (event.t !== "step") continue;
    yield* withUnits(open.flatMap(entriesOf), units);
    recorded = Math.max(recorded, event.step);
    open = [];
  }
  const entries = entriesOfOpenStep(open, { cutOff: info.ended_at_ms !== null });
  yield* withUnits(entries, units);
  yield* units.map((unit) => ({ ...unit, step: entries.at(-1)?.step ?? recorded }));
  const texts = new Set(entries.map(key));
  return (entry) =>
    entry.kind === "unit" ? unitTexts.delete(entry.text) : entry.step <= recorded || texts.delete(key(entry));
}

/** Takes the units that are older than an entry, and puts them before it. */
function* withUnits(entries: readonly LogEntry[], units: LogEntry[]): Generator<LogEntry> {
  for (const entry of entries) {
    const later = units.findIndex(({ ts }) => ts >= entry.ts);
    for (const unit of units.splice(0, later < 0 ? units.length : later)) yield { ...unit, step: entry.step };
    yield entry;
  }
}

function key({ step, kind, text, call }: LogEntry): string {
  return `${step} ${kind} ${call?.id} ${text}`;
}
