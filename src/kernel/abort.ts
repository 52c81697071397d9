import { SyscallError } from "../plugin/index.ts";
import type { Clock } from "./clock.ts";

export interface LimitedSignal {
  signal: AbortSignal;
  /** Stops the timer and lets go of the parent. Whoever made the signal calls it, whatever happened. */
  release(): void;
}

/** A signal that follows `parent` and aborts by itself after `ms` with TIMEOUT and this message. */
export function withDeadline(clock: Clock, parent: AbortSignal, ms: number, message: string): LimitedSignal {
  const controller = new AbortController();
  const follow = (): void => controller.abort(parent.reason);
  if (parent.aborted) follow();
  parent.addEventListener("abort", follow, { once: true });
  const timer = clock.timer(ms, () => controller.abort(new SyscallError("TIMEOUT", message)));
  return {
    signal: controller.signal,
    release(): void {
      timer.cancel();
      parent.removeEventListener("abort", follow);
    },
  };
}

/**
 * Waits for a driver, but not for ever: after the signal it has `graceMs` to end by itself, then it is
 * given up. An aborted call always fails with the signal's reason, whatever the driver made of it.
 */
export async function heed<T>(
  work: Promise<T>,
  signal: AbortSignal,
  clock: Clock,
  graceMs: number,
): Promise<T> {
  const deaf = Promise.withResolvers<never>();
  let cancelTimer = (): void => {};
  const onAbort = (): void => {
    const timer = clock.timer(graceMs, () => deaf.reject(signal.reason));
    cancelTimer = timer.cancel;
  };
  if (signal.aborted) onAbort();
  else signal.addEventListener("abort", onAbort, { once: true });
  try {
    return await Promise.race([work, deaf.promise]);
  } catch (thrown) {
    throw signal.aborted && isCancelled(thrown) ? signal.reason : thrown;
  } finally {
    signal.removeEventListener("abort", onAbort);
    cancelTimer();
  }
}

function isCancelled(thrown: unknown): boolean {
  if (thrown instanceof SyscallError) return thrown.code === "CANCELLED" || thrown.code === "TIMEOUT";
  return thrown instanceof Error && thrown.name === "AbortError";
}
