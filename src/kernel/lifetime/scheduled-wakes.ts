/** The waits that runs ask for with the tool Wake. */

import { childOf } from "../../daemons/snapshot.ts";
import { onceAborted } from "../../lib/clock.ts";
import { formatDuration } from "../../lib/duration.ts";
import { SyscallError } from "../../plugin/index.ts";
import type { Asks } from "../asks/asks.ts";
import type { Process } from "../process/process.ts";
import type { Calls } from "../tiers/calls.ts";
import type { Wake } from "../types.ts";
import type { Units } from "../units/units.ts";

/** What a call of Wake asks for: a time, a message or a report of a unit, or whichever comes first. */
export interface WakeRequest {
  at_ms?: number;
  on?: "message" | "unit";
}

interface ScheduledWakesParts extends Calls {
  units: Units;
  asks: Asks;
}

/** The wakes that a call of Wake sets. */
type OwnWake = Extract<Wake, { on: "at" | "message" | "unit" }>;

/** How often a wait under the eyes of a person checks that the person is still there. Below the limit of timers. */
const CHECK_MS = 5_000;

/**
 * A run that waits is suspended, so that it costs nothing; the waker resumes it, and the repeated call returns.
 * While a person watches, the run waits in place instead. Neither counts towards the run's time limit.
 */
export class ScheduledWakes {
  readonly #parts: ScheduledWakesParts;

  constructor(parts: ScheduledWakesParts) {
    this.#parts = parts;
  }

  now(): number {
    return this.#parts.clock.now();
  }

  /**
   * Resolves with why the run was woken. Fails with INVALID for a time that is past or beyond `wake_wait`, EXHAUSTED in
   * the last step, and UNAVAILABLE where nothing would resume the run.
   */
  async wait(
    proc: Process,
    callId: string,
    request: () => WakeRequest,
    signal: AbortSignal,
  ): Promise<string> {
    const { waiting } = this.#parts;
    const earlier = waiting.of(proc, callId);
    const isRepeated = earlier?.on === "at" || earlier?.on === "message" || earlier?.on === "unit";
    this.#requireStepCall(proc, callId);
    const wake = isRepeated ? earlier : this.#requireWake(proc, request());
    const why = this.#cameTrue(proc, wake) ?? (isRepeated && wasSuspendedFor(proc, wake) ? EARLY : null);
    if (why === null && !isRepeated) await waiting.begin(proc, callId, wake);
    const text = why ?? (await this.#await(proc, wake, signal));
    waiting.end(proc, callId);
    return text;
  }

  #requireStepCall(proc: Process, callId: string): void {
    const isStepCall = this.#parts.drain.isActive(proc, callId) && !proc.model.served;
    if (isStepCall && proc.spec.wakes) return;
    const reason = isStepCall
      ? "this run has no daemon that could resume it (--no-daemon). Wait within a command, such as `sleep 60`, or end your work and say when to continue it."
      : "expected a tool call of a run's own step. A program that acts as the model, and a program of a run, wait by themselves.";
    throw new SyscallError("UNAVAILABLE", `Wake: ${reason}`);
  }

  #requireWake(proc: Process, { at_ms, on }: WakeRequest): OwnWake {
    const { budget, opts } = proc.spec;
    const maxSteps = budget.limits.steps;
    if (maxSteps !== null && proc.run.step >= maxSteps) {
      const message = `Wake: this is step ${proc.run.step} of at most ${maxSteps}, so nothing could be done after the wait. Give your answer now.`;
      throw new SyscallError("EXHAUSTED", message);
    }
    const now = this.#parts.clock.now();
    const max = opts.limits.wake_wait;
    if (at_ms !== undefined && at_ms <= now)
      throw new SyscallError("INVALID", `Wake: expected a time after now, ${rfc(now)}, got ${rfc(at_ms)}.`);
    if (at_ms !== undefined && at_ms - now > max) {
      const text = `Wake: expected a wait of at most ${formatDuration(max)} (wake_wait), got ${formatDuration(at_ms - now)}. Now it is ${rfc(now)}.`;
      throw new SyscallError("INVALID", text);
    }
    const until_ms = at_ms ?? now + max;
    if (on === "unit") return { on, ids: this.#requireUnits(proc), until_ms };
    return on === "message" ? { on, until_ms } : { on: "at", at_ms: until_ms };
  }

  /** The live units. An agent in the background is suspended with its parent, so nothing waits for it. */
  #requireUnits(proc: Process): string[] {
    // The agent does not wait for a unit of a driver.
    const live = this.#parts.units.list(proc).filter(({ kind }) => kind !== "lsp");
    const agent = live.find((unit) => childOf(unit) !== undefined);
    if (live.length > 0 && !agent) return live.map(({ id }) => id);
    const why = agent
      ? `unit ${agent.id} is an agent, which works only while you do: give your answer, and its end wakes you`
      : "no background unit of yours is live";
    throw new SyscallError("INVALID", `Wake: on: expected live commands or monitors, and ${why}.`);
  }

  /** Why the wait is over; null while it is not. */
  #cameTrue(proc: Process, wake: OwnWake): string | null {
    const inbox = this.#parts.inboxes.of(proc);
    if (inbox.inputs.some(({ when }) => when !== "after_answer")) return "The user has sent a message.";
    if (wake.on === "message" && inbox.hasMessage) return "A message has come.";
    if (wake.on === "unit" && inbox.hasReport) return "A background unit has reported.";
    if (this.#parts.clock.now() < timeOf(wake)) return null;
    if (wake.on === "unit") return "No unit has reported in time.";
    return wake.on === "at" ? "The time has come." : "No message has come in time.";
  }

  async #await(proc: Process, wake: OwnWake, signal: AbortSignal): Promise<string> {
    const { asks, suspend } = this.#parts;
    signal.throwIfAborted();
    const why = asks.isAttended(proc) ? await this.#waitInPlace(proc, wake, signal) : null;
    if (why !== null) return why;
    suspend(proc, "it called Wake", wake);
    signal.throwIfAborted();
    throw new SyscallError("INTERNAL", "Wake: the run was not suspended.");
  }

  /** Resolves with why the wait is over; null when no person watches any more. */
  async #waitInPlace(proc: Process, wake: OwnWake, signal: AbortSignal): Promise<string | null> {
    const { asks, clock, inboxes, table, windows } = this.#parts;
    const inbox = inboxes.of(proc);
    const resume = windows.pause(proc);
    const release = table.holdClocks(proc);
    try {
      for (;;) {
        const why = this.#cameTrue(proc, wake);
        if (why !== null || !asks.isAttended(proc)) return why;
        const { promise, resolve } = Promise.withResolvers<void>();
        inbox.onArrival(resolve);
        const ignore = onceAborted(signal, resolve);
        const timer = clock.timer(Math.min(timeOf(wake) - clock.now(), CHECK_MS), resolve);
        await promise;
        timer.cancel();
        ignore();
        signal.throwIfAborted();
      }
    } finally {
      inbox.onArrival(undefined);
      release();
      resume();
    }
  }
}

const EARLY = "You were resumed before your wait was over.";

/** Whether the run was suspended by this wait, and not by a stop or a crash during it. */
function wasSuspendedFor(proc: Process, wake: OwnWake): boolean {
  const { suspended } = proc.spec.progress?.before ?? {};
  const had = suspended?.cause === "asked" ? suspended.wake : undefined;
  return had?.on === wake.on && timeOf(had) === timeOf(wake);
}

function timeOf(wake: OwnWake): number {
  return wake.on === "at" ? wake.at_ms : (wake.until_ms ?? Number.POSITIVE_INFINITY);
}

/** RFC 3339 to the second, in UTC. */
export function rfc(ms: number): string {
  return `${new Date(ms).toISOString().slice(0, 19)}Z`;
}
