/** A signal that aborts when nothing arrives for a time. */

import { Abort, onceAborted } from "../../lib/cancellation.ts";
import type { Clock, Timer } from "../../lib/clock.ts";
import { SyscallError } from "../../plugin/index.ts";

/**
 * A signal that follows its parent and also aborts at its own deadline. The reason is always a SyscallError. Call
 * `stop`: until then it holds a timer, and the parent holds it.
 */
export class IdleTimeout {
  readonly #clock: Clock;
  readonly #abort = new Abort();
  readonly #detach: () => void;
  #timer: Timer | undefined;
  readonly #activity: Activity;
  #ms = Number.POSITIVE_INFINITY;
  #since = 0;
  /** Time that had passed when it was paused. */
  #passed = 0;

  /** The deadline restarts while `activity` is busy. */
  constructor(clock: Clock, parent: AbortSignal, activity: Activity) {
    this.#clock = clock;
    this.#activity = activity;
    this.#detach = onceAborted(parent, () => this.#abort.abort(reasonOf(parent)));
  }

  get signal(): AbortSignal {
    return this.#abort.signal;
  }

  /** Starts the deadline, or continues it after a pause. No effect while it runs. */
  arm(ms: number, expired: () => SyscallError): void {
    if (this.#timer !== undefined) return;
    this.#ms = ms;
    this.#since = this.#clock.monotonic() - this.#passed;
    this.#wait(Math.max(1, this.leftMs), expired);
  }

  /** The time until the next `arm` does not count. */
  pause(): void {
    if (this.#timer === undefined) return;
    this.#passed = this.#clock.monotonic() - this.#since;
    this.#timer.cancel();
    this.#timer = undefined;
  }

  /** Restarts the deadline after activity. */
  touch(): void {
    this.#since = this.#clock.monotonic();
  }

  /** Milliseconds until the deadline. */
  get leftMs(): number {
    return this.#since + this.#ms - this.#clock.monotonic();
  }

  stop(): void {
    this.#timer?.cancel();
    this.#detach();
  }

  /** `touch` does not set a new timer: the timer checks the time that is left when it fires. */
  #wait(ms: number, expired: () => SyscallError): void {
    this.#timer = this.#clock.timer(ms, () => {
      if (this.#activity.isBusy) this.touch();
      const left = this.leftMs;
      // At least 1 ms, or a rounding remainder could be waited for forever.
      if (left > 0) this.#wait(Math.max(1, left), expired);
      else this.#abort.abort(expired());
    });
  }
}

/** The awaited program; while it is busy with its own work, its silence does not count. */
interface Activity {
  readonly isBusy?: boolean;
}

function reasonOf(signal: AbortSignal): SyscallError {
  const reason: unknown = signal.reason;
  if (reason instanceof SyscallError) return reason;
  return new SyscallError("CANCELLED", "the model call was cancelled", { cause: reason });
}
