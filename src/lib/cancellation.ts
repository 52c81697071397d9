import { SyscallError } from "../plugin/index.ts";
import type { Clock } from "./clock.ts";

interface LimitedSignal {
  signal: AbortSignal;
  /** Stops the timer and lets go of the parent. Whoever made the signal calls it, whatever happened. */
  release(): void;
}

/** A signal that follows `parent` and aborts by itself after `ms` with TIMEOUT and this message. */
export function withDeadline(clock: Clock, parent: AbortSignal, ms: number, message: string): LimitedSignal {
  const abort = new Abort();
  const ignore = onceAborted(parent, () => abort.abort(parent.reason));
  const timer = clock.timer(ms, () => abort.abort(new SyscallError("TIMEOUT", message)));
  return {
    signal: abort.signal,
    release(): void {
      timer.cancel();
      ignore();
    },
  };
}

/**
 * Waits for a driver, but not for ever: after the signal it has `graceMs` to end by itself, then it is
 * given up. An aborted call always fails with the signal's reason, whatever the driver made of it.
 */
export async function withGrace<T>(
  work: Promise<T>,
  signal: AbortSignal,
  clock: Clock,
  graceMs: number,
): Promise<T> {
  const deaf = Promise.withResolvers<never>();
  let cancelTimer = (): void => {};
  const onAbort = (): void => {
    if (graceMs <= 0) {
      deaf.reject(signal.reason);
      return;
    }
    const timer = clock.timer(graceMs, () => deaf.reject(signal.reason));
    cancelTimer = timer.cancel;
  };
  const ignore = onceAborted(signal, onAbort);
  try {
    return await Promise.race([work, deaf.promise]);
  } catch (thrown) {
    throw signal.aborted && isCancelled(thrown) ? signal.reason : thrown;
  } finally {
    ignore();
    cancelTimer();
  }
}

/** Waits for work that has its own end, until the signal's: then with its reason, and the work goes on. */
export async function orAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  const aborted = Promise.withResolvers<never>();
  const ignore = onceAborted(signal, () => aborted.reject(signal.reason));
  try {
    return await Promise.race([work, aborted.promise]);
  } finally {
    ignore();
  }
}

/**
 * Calls `f` once when the signal is aborted, at once when it already is, until the returned function is called.
 * However many listen to a signal, it has one listener of the runtime's: adding and removing one for each
 * read of a long answer costs more than the reads.
 */
export function onceAborted(signal: AbortSignal, f: () => void): () => void {
  if (signal.aborted) {
    f();
    return () => undefined;
  }
  const listening = listeners.get(signal) ?? listenTo(signal);
  listening.add(f);
  return () => void listening.delete(f);
}

const listeners = new WeakMap<AbortSignal, Listeners>();

/** Who listens to one signal. Most have one listener: a set for it would be a good part of what a waiting process takes. */
class Listeners {
  #only: (() => void) | undefined;
  #more: Set<() => void> | undefined;

  add(f: () => void): void {
    if (this.#more) this.#more.add(f);
    else if (this.#only === undefined) this.#only = f;
    else this.#more = new Set([this.#only, f]);
  }

  delete(f: () => void): void {
    if (this.#only === f) this.#only = undefined;
    this.#more?.delete(f);
  }

  notifyAll(): void {
    const all = this.#more ?? (this.#only ? [this.#only] : []);
    for (const f of [...all]) f();
  }
}

/** An abort of ours: `onceAborted` hears of it without a listener of the runtime's, which costs more than a syscall. */
export class Abort {
  readonly #controller = new AbortController();
  readonly #listening = new Listeners();

  constructor() {
    listeners.set(this.signal, this.#listening);
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  abort(reason: unknown): void {
    if (this.signal.aborted) return;
    this.#controller.abort(reason);
    this.#listening.notifyAll();
  }
}

function listenTo(signal: AbortSignal): Listeners {
  const listening = new Listeners();
  listeners.set(signal, listening);
  signal.addEventListener("abort", () => listening.notifyAll(), { once: true });
  return listening;
}

function isCancelled(thrown: unknown): boolean {
  if (thrown instanceof SyscallError) return thrown.code === "CANCELLED" || thrown.code === "TIMEOUT";
  return thrown instanceof Error && thrown.name === "AbortError";
}
