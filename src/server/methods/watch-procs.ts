/** The method watch_procs. */

import { z } from "zod";
import { SyscallError } from "../../plugin/index.ts";
import type { ProcChanges } from "../../protocol/methods.ts";
import { type StreamReply, streamMethod } from "./method.ts";
import { refuseQuestions } from "./shared/refuse-inside.ts";

/**
 * Streams the live processes and open questions of all projects: the whole state, then what changes, until the client or
 * the daemon ends. A client that has not read a change gets the whole state next. Refused inside a run, as questions are.
 */
export const watchProcs = streamMethod({
  payload: () => z.object({}),
  async handle(_payload, { procFeed }, out: StreamReply<Record<string, never>>, caller): Promise<void> {
    refuseQuestions(caller);
    if (!procFeed)
      throw new SyscallError("UNAVAILABLE", "Only the daemon has changes to watch: leave --no-daemon out.");
    const feed = await procFeed.open();
    await out.accept({});
    const over = Promise.withResolvers<void>();
    out.gone.addEventListener("abort", () => over.resolve(), { once: true });
    let isSending = false;
    let isBehind = false;
    const send = async (change: ProcChanges): Promise<void> => {
      isSending = true;
      await out.send({ type: "procs", payload: change });
      isSending = false;
      if (!isBehind) return;
      isBehind = false;
      await send(watch.whole());
    };
    const watch = feed.watch({
      send(change) {
        if (isSending) isBehind = true;
        else send(change).catch(over.reject);
      },
      close: () => over.resolve(),
    });
    await over.promise.finally(() => watch.end());
  },
});
