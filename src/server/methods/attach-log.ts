/** The method attach_log. */

import { z } from "zod";
import { retryEntry, switchEntry } from "../../kernel/events/log-entry.ts";
import type { LogEntry, ProcessEvent } from "../../kernel/process/event.ts";
import { Target } from "../../protocol/fields.ts";
import type { ProcRef } from "../../protocol/methods.ts";
import { JOURNAL } from "../../store/runs/run-files.ts";
import type { StreamReply } from "../connection/stream-reply.ts";
import { Damage } from "../records/damage.ts";
import { allSteps, type Run } from "../records/recorded-run.ts";
import type { Services } from "../services.ts";
import { streamMethod } from "./method.ts";
import { type FoundRun, findRun, recordsOf, refOf } from "./shared/find-run.ts";
import { endEntries, entriesOfJournal, entriesOfProgram, entriesOfStep } from "./shared/log-entries.ts";
import { eof, until } from "./shared/stream-events.ts";
import { supervisorLog } from "./shared/supervisor-log.ts";

/**
 * Streams the log of a run: the recorded entries, then the live ones until it ends, unless `follow` is false; then eof.
 */
export const attachLog = streamMethod({
  payload: () => Target().extend({ follow: z.boolean().optional() }),
  async handle(payload, services, out: StreamReply<ProcRef>): Promise<void> {
    const found = await findRun(services, payload);
    if (found.info.kind === "supervisor")
      return attachSupervisorLog(found, payload.follow !== false, services, out);
    if (found.info.kind === "command")
      return attachProgramLog(found, payload.follow !== false, services, out);
    // Attached before the records are read, so that no entry is missed in between.
    const channel =
      found.live && payload.follow !== false
        ? services.kernel.attach(found.pid, { watched: "log" })
        : undefined;
    try {
      const run = await recordsOf(services, found);
      await out.accept(refOf(found.info));
      const damage = new Damage(run);
      const wasSent = await sendRecorded(run, damage, out);
      let last = found.live ? undefined : found.info;
      if (channel) {
        for await (const event of until<ProcessEvent>(channel, out.gone)) {
          if (event.type === "complete") last = event.info;
          const entry = liveEntry(event, services.clock.now());
          if (entry && !wasSent(entry)) await out.send({ type: "log_entry", payload: entry });
        }
      }
      for (const entry of last ? endEntries(last) : []) await out.send({ type: "log_entry", payload: entry });
      await out.send(eof(channel?.dropped, damage));
    } finally {
      channel?.end();
    }
  },
});

/** The entry of an event. Retries are shown live only: no record holds them. */
function liveEntry(event: ProcessEvent, now: number): LogEntry | undefined {
  if (event.type === "log") return event.entry;
  return event.type === "retry" ? retryEntry(event, now) : undefined;
}

async function attachSupervisorLog(
  found: FoundRun,
  follow: boolean,
  services: Services,
  out: StreamReply<ProcRef>,
): Promise<void> {
  const channel = found.live && follow ? services.kernel.attachDebug(found.pid) : undefined;
  try {
    const run = await recordsOf(services, found);
    await out.accept(refOf(found.info));
    const damage = new Damage(run);
    for await (const entry of supervisorLog(run, channel, out.gone, damage)) {
      await out.send({ type: "log_entry", payload: entry });
    }
    await out.send(eof(channel?.dropped, damage));
  } finally {
    channel?.end();
  }
}

/** A program has no steps: its end has its last output. */
async function attachProgramLog(
  { info: now, live }: FoundRun,
  follow: boolean,
  services: Services,
  out: StreamReply<ProcRef>,
): Promise<void> {
  const channel = live && follow ? services.kernel.attach(now.pid, { watched: "log" }) : undefined;
  try {
    await out.accept(refOf(now));
    let info = now;
    if (channel) {
      for await (const event of until<ProcessEvent>(channel, out.gone)) {
        if (event.type === "complete") info = event.info;
      }
    }
    for (const entry of entriesOfProgram(info)) await out.send({ type: "log_entry", payload: entry });
    await out.send(eof(channel?.dropped));
  } finally {
    channel?.end();
  }
}

/** Sends the recorded entries; returns whether a live entry was among them. */
async function sendRecorded(
  { records, info }: Run,
  damage: Damage,
  out: StreamReply<ProcRef>,
): Promise<(entry: LogEntry) => boolean> {
  // The journal is read before the steps: a step recorded meanwhile is then in the steps. In the other order it would be in neither.
  const journal = await records.journal(info.uuid);
  let recorded = 0;
  for await (const step of allSteps(records, info.uuid, damage)) {
    for (const entry of entriesOfStep(step)) await out.send({ type: "log_entry", payload: entry });
    recorded = Math.max(recorded, step.step);
  }
  damage.add(JOURNAL, journal);
  const cutOff = info.ended_at_ms !== null;
  const open = [...info.switches.map(switchEntry), ...entriesOfJournal(journal.entries, { cutOff })].filter(
    (entry) => entry.step > recorded,
  );
  for (const entry of open) await out.send({ type: "log_entry", payload: entry });
  const texts = new Set(open.map(key));
  return (entry) => entry.step <= recorded || texts.delete(key(entry));
}

function key({ step, kind, text, call }: LogEntry): string {
  return `${step} ${kind} ${call?.id} ${text}`;
}
