import type { Clock } from "../../lib/clock.ts";
import type { Process } from "../process/process.ts";
import type { Wake } from "../types.ts";

/**
 * Tool calls that have done what they had to and end with what they wait for (design §2, "Waiting"). It is in the
 * journal before: whatever ends the run meanwhile, the call goes on waiting when the run goes on, and is never
 * unknown.
 */
export class WaitingCalls {
  readonly #clock: Clock;
  /** By call. */
  readonly #waiting = new WeakMap<Process, Map<string, Wake>>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Written down, so that also a power loss leaves it, before what it waits for is begun. */
  async begin(proc: Process, callId: string, on: Wake): Promise<void> {
    const ts = new Date(this.#clock.now()).toISOString();
    proc.record.journal({ t: "waiting", step: proc.step, ts, id: callId, on });
    this.restore(proc, [[callId, on]]);
    await proc.record.sync();
  }

  /** Of the step that was open when the run was laid down. */
  restore(proc: Process, calls: Iterable<readonly [string, Wake]>): void {
    const known = this.#waiting.get(proc) ?? new Map<string, Wake>();
    for (const [callId, on] of calls) known.set(callId, on);
    if (known.size > 0) this.#waiting.set(proc, known);
  }

  of(proc: Process, callId: string): Wake | undefined {
    return this.#waiting.get(proc)?.get(callId);
  }

  /** What it waits for will not come to be: the call ends as any other. */
  end(proc: Process, callId: string): void {
    this.#waiting.get(proc)?.delete(callId);
  }
}
