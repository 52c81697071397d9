/** Tool calls under way: their keys, which of them wait for an event, and their end before the kernel stops. */

import { type Clock, onceAborted } from "../../lib/clock.ts";
import type { Process } from "../process/process.ts";
import type { Wake } from "../types.ts";

/**
 * Tool calls that have done their work and wait for an event, such as the end of a child. The wait is in the journal:
 * after an interruption the resumed call continues to wait, and its state is never unknown.
 */
export class WaitingCalls {
  readonly #clock: Clock;
  /** What each waiting call of a process waits for, by the call's id. */
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

  /** Counts a call that begins. One that waited when its run was suspended was counted before. */
  count(proc: Process, callId: string): void {
    if (this.of(proc, callId) === undefined) proc.run.toolCalls++;
  }

  of(proc: Process, callId: string): Wake | undefined {
    return this.#waiting.get(proc)?.get(callId);
  }

  /** Ends a wait whose event won't happen: the call ends like any other. */
  end(proc: Process, callId: string): void {
    this.#waiting.get(proc)?.delete(callId);
  }
}

const POLL_MS = 20;

/**
 * Lets running tool calls finish before the kernel stops, while nothing new starts. A process that reaches its next
 * action waits here until it is suspended. If calls of its step are left, the step stays open and is finished after a
 * resume. Model answers are not waited for: they are requested again.
 */
export class Drain {
  readonly #clock: Clock;
  /** A call that only waits can wait again after a resume: the drain does not wait for it. */
  readonly #waiting: WaitingCalls;
  readonly #calls = new Map<Process, Set<string>>();
  /** Processes that wait to be suspended. */
  readonly #idle = new Set<Process>();
  /** While true, `waitForSuspend` waits. Check this first: it needs no turn of the event loop. */
  isOn = false;

  constructor(clock: Clock, waiting: WaitingCalls) {
    this.#clock = clock;
    this.#waiting = waiting;
  }

  /** From now on nothing new starts. */
  begin(): void {
    this.isOn = true;
  }

  /** Returns false at once if the kernel does not drain or the process is stopping; else true when it is stopped. */
  async waitForSuspend(proc: Process): Promise<boolean> {
    if (!this.isOn || proc.stopped) return false;
    this.#idle.add(proc);
    await new Promise<void>((resolve) => void onceAborted(proc.signal, resolve));
    this.#idle.delete(proc);
    return true;
  }

  /** Runs a tool call, and counts it as active until it ends. */
  async call<T>(proc: Process, callId: string, make: () => Promise<T>): Promise<T> {
    const calls = this.#calls.get(proc) ?? new Set();
    this.#calls.set(proc, calls.add(callId));
    try {
      return await make();
    } finally {
      calls.delete(callId);
      if (calls.size === 0) this.#calls.delete(proc);
    }
  }

  /** Whether this call of the open step runs. */
  isActive(proc: Process, callId: string): boolean {
    return this.#calls.get(proc)?.has(callId) === true;
  }

  /** Active calls that the drain waits for. */
  get activeCalls(): number {
    // A process that is paused, stopping, or waiting to be suspended would not finish its calls.
    const running = [...this.#calls].filter(
      ([proc]) => !proc.paused && !proc.stopped && !this.#idle.has(proc),
    );
    const calls = running.flatMap(([proc, ids]) => [...ids].map((id) => this.#waiting.of(proc, id)));
    return calls.filter((on) => on === undefined).length;
  }

  /** Starts the drain. Resolves when no call is active any more, or after `ms`. */
  async settle(ms: number): Promise<void> {
    const clock = this.#clock;
    this.begin();
    const until = clock.monotonic() + ms;
    while (this.activeCalls > 0 && clock.monotonic() < until) {
      await new Promise<void>((resolve) => void clock.timer(POLL_MS, resolve));
    }
  }
}

/** Ids of most providers, which may stand in a header, a file name or a variable as they are. */
const PLAIN_ID = /^[A-Za-z0-9._-]{1,64}$/;

/**
 * The key of a tool call: run, step, call. The journal has all three before the call starts, so a call that is repeated
 * after a crash or a resume has the same key. At most 128 letters, digits, ".", "_", "-" and ":".
 */
export function callKey(uuid: string, step: number, callId: string): string {
  return `${uuid}:${step}:${PLAIN_ID.test(callId) ? callId : hashed(callId)}`;
}

function hashed(callId: string): string {
  return new Bun.CryptoHasher("sha256").update(callId).digest("hex").slice(0, 32);
}
