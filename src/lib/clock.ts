/** The clock, and waits: signals with deadlines, and waits that a signal ends. */

import { SyscallError } from "../plugin/errors.ts";
import { withOutput } from "./error-detail.ts";

/** The kernel's only source of time, set at boot. Tests pass a clock that they move by hand. */
export interface Clock {
  /** Unix time in ms. May jump. */
  now(): number;
  /** Ms from an arbitrary start, with fractions. Never goes back. For all durations. */
  monotonic(): number;
  /** Calls `f` once after `ms`. Does not keep the process alive by itself. */
  timer(ms: number, f: () => void): Timer;
}

export interface Timer {
  cancel(): void;
}

/** setTimeout counts in 32 bits, so a clock splits a longer wait. */
export const LONGEST_MS = 2 ** 31 - 1;

export const realClock: Clock = {
  now: () => Date.now(),
  monotonic: () => performance.now(),
  timer(ms, f) {
    let handle: ReturnType<typeof setTimeout>;
    const arm = (left: number): void => {
      const piece = Math.min(left, LONGEST_MS);
      handle = setTimeout(() => (left > piece ? arm(left - piece) : f()), Math.max(0, piece));
      handle.unref();
    };
    arm(ms);
    return { cancel: () => clearTimeout(handle) };
  },
};

/** Calls `f` each time that `ms` have passed, until it is cancelled. */
export function every(clock: Pick<Clock, "timer">, ms: number, f: () => void): Timer {
  const again = (): void => {
    timer = clock.timer(ms, again);
    f();
  };
  let timer = clock.timer(ms, again);
  return { cancel: () => timer.cancel() };
}

/** Does work under a signal that aborts with `parent`, or after `ms` with TIMEOUT and this message. */
export async function withDeadline<T>(
  clock: Clock,
  parent: Cancellation,
  ms: number,
  message: string,
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const abort = new Abort();
  const ignore = onceAborted(parent, () => abort.abort(parent.reason));
  const timer = clock.timer(ms, () => abort.abort(new SyscallError("TIMEOUT", message)));
  try {
    return await work(abort.signal);
  } finally {
    timer.cancel();
    ignore();
  }
}

/**
 * Waits for a driver. After the abort it has `graceMs` to end; then the wait ends anyway. An aborted call always fails
 * with the signal's reason.
 */
export async function withGrace<T>(
  work: Promise<T>,
  signal: Cancellation,
  clock: Clock,
  graceMs: number,
): Promise<T> {
  const deaf = Promise.withResolvers<never>();
  let cancelTimer = (): void => {};
  const onAbort = (): void => {
    const fail = (): void => deaf.reject(signal.reason);
    if (graceMs <= 0) fail();
    else cancelTimer = clock.timer(graceMs, fail).cancel;
  };
  const ignore = onceAborted(signal, onAbort);
  try {
    return await Promise.race([work, deaf.promise]);
  } catch (thrown) {
    throw signal.aborted && isCancelled(thrown) ? reasonOf(signal, thrown) : thrown;
  } finally {
    ignore();
    cancelTimer();
  }
}

/** The signal's reason, with what the driver had produced. */
function reasonOf({ reason }: Cancellation, thrown: unknown): unknown {
  const output = thrown instanceof SyscallError ? thrown.output : undefined;
  return output !== undefined && reason instanceof SyscallError ? withOutput(reason, output) : reason;
}

/** Waits for work until the signal aborts, then fails with its reason. The work itself continues. */
export async function orAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  const aborted = Promise.withResolvers<never>();
  const ignore = onceAborted(signal, () => aborted.reject(signal.reason));
  try {
    return await Promise.race([work, aborted.promise]);
  } finally {
    ignore();
  }
}

/** A signal that aborts with the first of both. */
export function either(one: AbortSignal, other: AbortSignal | undefined): AbortSignal {
  return other ? AbortSignal.any([one, other]) : one;
}

/** Waits `ms`. Fails with the signal's reason when it aborts. */
export function sleep(clock: Clock, ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    let ignore = (): void => {};
    const timer = clock.timer(ms, () => {
      ignore();
      resolve();
    });
    ignore = onceAborted(signal, () => {
      timer.cancel();
      reject(signal.reason);
    });
  });
}

/**
 * Calls `f` once when the signal aborts, or immediately if it is aborted. The returned function removes `f`. Each signal
 * has one listener of the runtime: adding and removing one per read of a long answer would cost more than the reads.
 */
export function onceAborted(signal: Cancellation, f: () => void): () => void {
  if (signal.aborted) {
    f();
    return () => undefined;
  }
  const listening = signal instanceof Abort ? signal.listening : (listeners.get(signal) ?? listenTo(signal));
  listening.add(f);
  return () => void listening.delete(f);
}

const listeners = new WeakMap<AbortSignal, Listeners>();

/** The listeners of one signal. Most signals have one, so a set is made only for more: it saves memory per process. */
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

/**
 * An AbortController whose listeners need no listener of the runtime, which costs more than a syscall. A signal of the
 * runtime takes half a KiB, so it is made at its first use: thousands of processes may wait.
 */
export class Abort {
  aborted = false;
  reason: unknown;
  readonly listening = new Listeners();
  #controller: AbortController | undefined;

  get signal(): AbortSignal {
    if (this.#controller) return this.#controller.signal;
    const controller = new AbortController();
    this.#controller = controller;
    listeners.set(controller.signal, this.listening);
    if (this.aborted) controller.abort(this.reason);
    return controller.signal;
  }

  abort(reason: unknown): void {
    if (this.aborted) return;
    this.aborted = true;
    this.reason = reason;
    this.#controller?.abort(reason);
    this.listening.notifyAll();
  }

  throwIfAborted(): void {
    if (this.aborted) throw this.reason;
  }
}

/** What work asks whether it must end. */
export type Cancellation = AbortSignal | Abort;

/** The runtime's signal of it, for those that need one. */
export function signalOf(cancellation: Cancellation): AbortSignal {
  return cancellation instanceof Abort ? cancellation.signal : cancellation;
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

/** Waits for `work`, at most `ms`. Returns whether it finished in time. Rethrows its error. */
export function withTimeout(clock: Clock, ms: number, work: Promise<unknown>): Promise<boolean> {
  return new Promise((resolve, reject) => {
    const timer = clock.timer(ms, () => resolve(false));
    work.finally(() => timer.cancel()).then(() => resolve(true), reject);
  });
}
