/** Answers a request that began a run, and streams its events. */

import { SyscallError } from "../../../plugin/index.ts";
import type { BegunRun } from "../../../protocol/methods.ts";
import type { Caller } from "../../connection/caller.ts";
import type { StreamReply } from "../../connection/stream-reply.ts";
import type { Services } from "../../services.ts";
import { spawnEvent, toStreamEvent, until } from "./stream-events.ts";

/** Whether a person can answer a run's questions by this client. A program of a run never can. */
export function canAnswer({ attended }: { attended?: boolean }, caller: Caller): boolean {
  if (attended !== true) return false;
  try {
    return caller.unit() === undefined;
  } catch (thrown) {
    // A program of a run that has ended may still follow others.
    if (thrown instanceof SyscallError) return false;
    throw thrown;
  }
}

interface FirstEvents {
  /** Why this provider. */
  because: string | undefined;
  /** The client can answer the run's questions. */
  answers: boolean;
  /** See the field of the requests. */
  quiet: boolean | undefined;
}

/** Answers, then streams the process to its end. Call it in the tick in which the process began, so that no event is missed. */
export async function streamRun<A extends BegunRun>(
  services: Services,
  answer: A,
  { because, answers, quiet }: FirstEvents,
  out: StreamReply<A>,
): Promise<void> {
  const ref = { pid: answer.pid, uuid: answer.uuid };
  const channel = services.kernel.attach(ref.pid, { answers, watched: quiet ? "end" : "all" });
  try {
    await out.accept(answer);
    for await (const event of until(channel, out.gone)) {
      const isSpawn = event.event === "spawn";
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
