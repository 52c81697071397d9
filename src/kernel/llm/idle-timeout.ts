import { Abort, onceAborted } from "../../lib/cancellation.ts";
import type { Clock, Timer } from "../../lib/clock.ts";
import { SyscallError } from "../../plugin/index.ts";

/**
 * A signal that follows its parent and is aborted by a deadline of its own. Its reason is always a
 * SyscallError. `stop` must be called: until then it holds a timer and the parent holds it.
 */
export class IdleTimeout {
  readonly #clock: Clock;
  readonly #abort = new Abort();
  readonly #detach: () => void;
  #timer: Timer | undefined;
  readonly #waitedFor: { busy?(): boolean };
  #ms = Number.POSITIVE_INFINITY;
  #since = 0;

  /** While what is waited for is `busy` with something else the deadline begins anew. */
  constructor(clock: Clock, parent: AbortSignal, waitedFor: { busy?(): boolean }) {
    this.#clock = clock;
    this.#waitedFor = waitedFor;
    this.#detach = onceAborted(parent, () => this.#abort.abort(reasonOf(parent)));
  }

  get signal(): AbortSignal {
    return this.#abort.signal;
  }

  /** Starts the deadline. A second call changes nothing. */
  arm(ms: number, expired: () => SyscallError): void {
    if (this.#timer !== undefined) return;
    this.#ms = ms;
    this.#since = this.#clock.monotonic();
    this.#wait(ms, expired);
  }

  /** Starts it anew: something has happened. */
  touch(): void {
    this.#since = this.#clock.monotonic();
  }

  /** Ms until the deadline, infinite before `arm`. */
  get leftMs(): number {
    return this.#since + this.#ms - this.#clock.monotonic();
  }

  stop(): void {
    this.#timer?.cancel();
    this.#detach();
  }

  /** One timer however often it is touched: it looks again when it fires. */
  #wait(ms: number, expired: () => SyscallError): void {
    this.#timer = this.#clock.timer(ms, () => {
      if (this.#waitedFor.busy?.()) this.touch();
      const left = this.leftMs;
      // At least a millisecond: what rounding has left over would otherwise be waited for without end.
      if (left > 0) this.#wait(Math.max(1, left), expired);
      else this.#abort.abort(expired());
    });
  }
}

function reasonOf(signal: AbortSignal): SyscallError {
  const reason: unknown = signal.reason;
  if (reason instanceof SyscallError) return reason;
  return new SyscallError("CANCELLED", "the model call was cancelled", { cause: reason });
}
