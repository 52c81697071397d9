import type { Payload, ProcRef } from "../../protocol/methods.ts";
import type { StreamReply } from "../connection/stream-reply.ts";
import { Damage } from "../records/damage.ts";
import { allEvents, type Run } from "../records/recorded-run.ts";
import type { Services } from "../services.ts";
import { findLiveRun, refOf } from "./find-run.ts";
import { eof, until } from "./stream-events.ts";

/** PID 0: the kernel itself, which has no UUID. */
const PID0: ProcRef = { pid: 0, uuid: "" };

/**
 * The syscalls of a process as they are made (seeds 5.8); of one that has ended, from disk. Then eof. Of PID 0
 * the last ones that are kept, and then what comes.
 */
export async function attachDebug(
  payload: Payload<"attach_debug">,
  system: Services,
  out: StreamReply<ProcRef>,
): Promise<void> {
  if (payload.pid === 0 && payload.uuid === undefined) return follow(PID0, system, out);
  const found = await findLiveRun(system, payload, "traced");
  const ref = refOf(found.info);
  if (found.live) return follow(ref, system, out);
  await out.accept(ref);
  const damage = new Damage(found.run);
  await replay(found.run, damage, out);
  await out.send(eof(0, damage));
}

async function follow(ref: ProcRef, system: Services, out: StreamReply<ProcRef>): Promise<void> {
  const channel = system.kernel.attachDebug(ref.pid);
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

async function replay({ info, records }: Run, damage: Damage, out: StreamReply<ProcRef>): Promise<void> {
  for await (const event of allEvents(records, info.uuid, damage)) {
    await out.send({ type: "syscall_event", payload: { ...event, uuid: info.uuid } });
  }
}
