/** The method attach_debug: the syscalls of a process. */

import { refOf, Target } from "../../protocol/fields.ts";
import type { ProcRef } from "../../protocol/methods.ts";
import type { DamageCollector } from "../../store/files/damaged-lines.ts";
import { damageOf, type Run } from "../records/recorded-run.ts";
import type { Services } from "../services.ts";
import { type StreamReply, streamMethod } from "./method.ts";
import { findLiveRun } from "./shared/find-run.ts";
import { eof, until } from "./shared/stream-events.ts";

/** PID 0: the kernel itself, which has no UUID. */
const PID0: ProcRef = { pid: 0, uuid: "" };

/**
 * Streams the syscalls of a live process (seeds 5.8), or those of an ended one from its record, then eof. For PID 0 the
 * latest ones, which are in memory only, then new ones.
 */
export const attachDebug = streamMethod({
  payload: Target,
  async handle(payload, services, out: StreamReply<ProcRef>): Promise<void> {
    if (payload.pid === 0 && payload.uuid === undefined) return follow(PID0, services, out);
    const found = await findLiveRun(services, payload, "traced");
    const ref = refOf(found.info);
    if (found.live) return follow(ref, services, out);
    await out.accept(ref);
    const damage = damageOf(found.run);
    await replay(found.run, damage, out);
    await out.send(eof(0, damage));
  },
});

async function follow(ref: ProcRef, services: Services, out: StreamReply<ProcRef>): Promise<void> {
  const channel = services.kernel.attachDebug(ref.pid);
  try {
    await out.accept(ref);
    for await (const event of until(channel, out.gone)) {
      await out.send({ type: "syscall_event", payload: { ...event, uuid: ref.uuid } });
    }
  } finally {
    channel.end();
  }
  await out.send(eof(channel.dropped));
}

async function replay(
  { info, records }: Run,
  damage: DamageCollector,
  out: StreamReply<ProcRef>,
): Promise<void> {
  for await (const event of records.everyEvent(info.uuid, damage)) {
    await out.send({ type: "syscall_event", payload: { ...event, uuid: info.uuid } });
  }
}
