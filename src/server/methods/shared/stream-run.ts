/** Answers a request that began a run, and streams its events. */

import type { BegunRun } from "../../../protocol/methods.ts";
import type { StreamReply } from "../../connection/stream-reply.ts";
import type { Services } from "../../services.ts";
import { spawnEvent, toStreamEvent, until } from "./stream-events.ts";

interface FirstEvents {
  /** Why this provider. */
  because: string | undefined;
}

/** Answers, then streams the process to its end. Call it in the tick in which the process began, so that no event is missed. */
export async function streamRun<A extends BegunRun>(
  services: Services,
  answer: A,
  { because }: FirstEvents,
  out: StreamReply<A>,
): Promise<void> {
  const ref = { pid: answer.pid, uuid: answer.uuid };
  const channel = services.kernel.attach(ref.pid);
  try {
    await out.accept(answer);
    for await (const event of until(channel, out.gone)) {
      const isSpawn = event.type === "spawn";
      await out.send(isSpawn ? spawnEvent(event.info, because) : toStreamEvent(ref, event, channel.dropped));
    }
  } finally {
    channel.end();
  }
}

/** Answers at once: the run continues without this client. */
export function answerRun<A extends BegunRun>(
  { kernel }: Services,
  answer: A,
  out: StreamReply<A>,
): Promise<void> {
  const { notices } = kernel.processes.info(answer.pid);
  return out.answer(notices.length === 0 ? answer : { ...answer, notices });
}
