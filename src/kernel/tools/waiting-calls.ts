/** Tool calls that wait for an event. */

import type { Clock } from "../../lib/clock.ts";
import type { Process } from "../process/process.ts";
import type { Wake } from "../types.ts";

/**
 * Tool calls that have done their work and wait for an event, such as the end of a child. The wait is in the journal:
 * after an interruption the resumed call continues to wait, and its state is never unknown.
 */
export class WaitingCalls {
  readonly #clock: Clock;
  /** By call. */
  readonly #waiting = new WeakMap<Process, Map<string, Wake>>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Makes the wait durable before the event's cause starts. */
  async begin(proc: Process, callId: string, on: Wake): Promise<void> {
    const ts = new Date(this.#clock.now()).toISOString();
    proc.record.journal({ t: "waiting", step: proc.run.step, ts, id: callId, on });
    this.restore(proc, [[callId, on]]);
    await proc.record.sync();
  }

  /** Restores the waits of the step that was open when the run was suspended. */
  restore(proc: Process, calls: Iterable<readonly [string, Wake]>): void {
    const known = this.#waiting.get(proc) ?? new Map<string, Wake>();
    for (const [callId, on] of calls) known.set(callId, on);
    if (known.size > 0) this.#waiting.set(proc, known);
  }

  of(proc: Process, callId: string): Wake | undefined {
    return this.#waiting.get(proc)?.get(callId);
  }

  /** Ends a wait whose event won't happen: the call ends like any other. */
  end(proc: Process, callId: string): void {
    this.#waiting.get(proc)?.delete(callId);
  }
}
