import type { BegunRun } from "../../../protocol/methods.ts";
import type { StreamReply } from "../../connection/stream-reply.ts";
import type { Services } from "../../services.ts";
import { noticeEvent, spawnEvent, toStreamEvent, until } from "./stream-events.ts";

interface FirstEvents {
  /** Why this provider. */
  because: string | undefined;
  notices: readonly string[];
}

/** Answers, then streams the process to its end. Call it in the tick in which the process began, so that no event is missed. */
export async function streamRun<A extends BegunRun>(
  services: Services,
  answer: A,
  { because, notices }: FirstEvents,
  out: StreamReply<A>,
): Promise<void> {
  const ref = { pid: answer.pid, uuid: answer.uuid };
  const channel = services.kernel.attach(ref.pid);
  try {
    await out.accept(answer);
    for await (const event of until(channel, out.gone)) {
      if (event.type !== "spawn") {
        await out.send(toStreamEvent(ref, event, channel.dropped));
        continue;
      }
      await out.send(spawnEvent(event.info, because));
      for (const notice of notices) await out.send(noticeEvent(ref, notice));
    }
  } finally {
    channel.end();
  }
}

/** Answers at once: the run continues without this client. */
export function answerRun<A extends BegunRun>(
  answer: A,
  notices: string[],
  out: StreamReply<A>,
): Promise<void> {
  return out.answer(notices.length === 0 ? answer : { ...answer, notices });
}
