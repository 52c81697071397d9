/** The wait of a run for the next message of its user. */

import { onceAborted } from "../../lib/cancellation.ts";
import { formatDuration } from "../../lib/duration.ts";
import type { Process } from "../process/process.ts";
import type { Io } from "../tiers/io.ts";

/** Why the wait is over: a message is in the inbox, something else is asked of the loop, or the run must stop. */
type WaitEnd = "message" | "request" | "stopped";

/**
 * Waits until a message with a number above `after` is in the inbox, or until the loop has another request: also when the
 * last background unit is over. Nothing polls. Where it is the user's turn, the clock of the process stands still. Without
 * an attached client for `chat_idle`, the run is suspended until a message comes, unless units live. `forUnits`: the
 * answer is given, and only units keep the run alive; its time limit counts on.
 */
export async function waitForMessage(
  { clock, inboxes, suspend, units }: Io,
  proc: Process,
  after: number,
  forUnits: boolean,
): Promise<WaitEnd> {
  const inbox = inboxes.of(proc);
  if (proc.stopped) return "stopped";
  if (inbox.beginsTurn(after)) return "message";
  if (proc.requests.hasWork) return "request";
  if (forUnits && !units.isBusy(proc)) return "request";
  if (proc.spec.opts.chat && proc.spec.opts.untilAnswer && !units.isBusy(proc)) {
    suspend(proc, "the chat waits for its next message", { on: "message" });
    return "stopped";
  }
  const over = Promise.withResolvers<WaitEnd>();
  const ms = proc.spec.opts.limits.chat_idle;
  let idle: { cancel(): void } | undefined;
  const watch = (): void => {
    idle?.cancel();
    if (proc.watchers.isAttended || units.isBusy(proc)) return;
    const why = `no message came for ${formatDuration(ms)}`;
    idle = clock.timer(ms, () => suspend(proc, why, { on: "message" }));
  };
  const ignore = onceAborted(proc.signal, () => over.resolve("stopped"));
  inbox.onArrival(() => void (inbox.beginsTurn(after) && over.resolve("message")));
  proc.requests.whileWaiting(() => over.resolve("request"));
  proc.watchers.onChange = watch;
  units.onIdle(proc, () => over.resolve("request"));
  if (!forUnits) proc.beginWait();
  watch();
  try {
    return await over.promise;
  } finally {
    proc.endWait();
    units.onIdle(proc, undefined);
    idle?.cancel();
    proc.watchers.onChange = undefined;
    proc.requests.whileWaiting(undefined);
    inbox.onArrival(undefined);
    ignore();
  }
}
