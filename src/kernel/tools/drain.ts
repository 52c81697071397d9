import { onceAborted } from "../../lib/cancellation.ts";
import type { Clock } from "../../lib/clock.ts";
import type { Process } from "../process/process.ts";

/** How often it is looked whether all have come to rest. */
const POLL_MS = 20;

interface DrainPorts {
  clock: Clock;
  /** The call waits for something, and goes on waiting when its run goes on: it costs nothing to cut it off. */
  waits(proc: Process, callId: string): boolean;
}

/**
 * The kernel comes to rest before it ends: tool calls that are under way may finish, and nobody begins anything new.
 * Whoever has come to the end of what it did waits here until it is laid down; its step stays open where calls of it
 * are still to be made, and is finished when the run goes on. An answer that a model is just giving is not waited
 * for: it is asked for again.
 */
export class Drain {
  readonly #ports: DrainPorts;
  /** Calls that are being made. */
  readonly #calls = new Map<Process, Set<string>>();
  /** Processes that wait to be laid down. */
  readonly #idle = new Set<Process>();
  #began = false;

  constructor(ports: DrainPorts) {
    this.#ports = ports;
  }

  /** From here on nobody begins anything. */
  begin(): void {
    this.#began = true;
  }

  /** Whoever would begin something waits at `pass`. Asked before it, which takes its turn of the event loop. */
  get isOn(): boolean {
    return this.#began;
  }

  /**
   * False at once as long as the kernel does not drain, and for one that was told to stop before; else true, when it
   * is told to.
   */
  async waitForSuspend(proc: Process): Promise<boolean> {
    if (!this.#began || proc.stopped) return false;
    this.#idle.add(proc);
    await new Promise<void>((resolve) => void onceAborted(proc.signal, resolve));
    this.#idle.delete(proc);
    return true;
  }

  /** Makes a call, and knows of it meanwhile. */
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

  /** Calls under way that are worth waiting for. */
  get activeCalls(): number {
    let count = 0;
    for (const [proc, calls] of this.#calls) {
      // One that is paused, or told to stop, comes to no end of its own, and one that rests in its call neither.
      if (proc.paused || proc.stopped || this.#idle.has(proc)) continue;
      for (const callId of calls) if (!this.#ports.waits(proc, callId)) count++;
    }
    return count;
  }

  /** Resolves when no call is under way any more, or after `ms`. Begins. */
  async settle(ms: number): Promise<void> {
    const { clock } = this.#ports;
    this.begin();
    const until = clock.monotonic() + ms;
    while (this.activeCalls > 0 && clock.monotonic() < until) {
      await new Promise<void>((resolve) => void clock.timer(POLL_MS, resolve));
    }
  }
}
