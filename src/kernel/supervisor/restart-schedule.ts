/** The pending restarts of a supervisor's children. */

import type { Clock, Timer } from "../../lib/clock.ts";
import { type RestartLimit, RestartWindow } from "./restart-policy.ts";
import type { Slot } from "./slot.ts";

/** A pending restart of a failed child and its group. */
export interface PendingRestart {
  readonly slot: Slot;
  /** Whether it counts in the window already. A clean end counts when the restart is made. */
  readonly counted: boolean;
  /** On the supervisor's own clock. */
  readonly dueAt: number;
  timer: Timer | undefined;
}

interface SchedulePorts {
  limit: RestartLimit;
  /** Counts the window. */
  clock: Clock;
  /** The supervisor's clock: delays stop while the supervisor is paused. */
  own: Clock;
  /** The slots that restart together with this one, itself included. */
  group(slot: Slot): readonly Slot[];
  due(restart: PendingRestart): void;
}

/** Counts the restarts of one supervisor and schedules pending ones. Owns their timers. */
export class RestartSchedule {
  readonly #ports: SchedulePorts;
  readonly #window: RestartWindow;
  readonly #pending = new Map<Slot, PendingRestart>();

  constructor(ports: SchedulePorts) {
    this.#ports = ports;
    this.#window = new RestartWindow(ports.limit);
  }

  /**
   * Ms until the child may be restarted; null when that exceeds the limit. A failure counts at once, as in OTP. A clean
   * end counts when the child is restarted, and waits until the window has room.
   */
  onExit(slot: Slot, clean: boolean, upMs: number): number | null {
    const now = this.#now();
    const room = clean ? this.#window.allowedInMs(now) : this.#window.add(now) ? 0 : null;
    if (room === null || room === Number.POSITIVE_INFINITY) return null;
    return Math.max(slot.delays.next(upMs), room);
  }

  /** Restarts in the current window. */
  get count(): number {
    return this.#window.count(this.#now());
  }

  /** Merges pending restarts of the same group: neither their delay nor their count is lost. */
  add(slot: Slot, delayMs: number, counted: boolean): void {
    const group = this.#ports.group(slot);
    const merged = [...this.#pending.values()].filter((one) => group.includes(one.slot));
    for (const one of merged) this.cancel(one);
    this.#arm({
      slot,
      counted: counted || merged.some((one) => one.counted),
      dueAt: Math.max(this.#ports.own.monotonic() + delayMs, ...merged.map((one) => one.dueAt)),
      timer: undefined,
    });
  }

  /** True when the restart is due now. False when it was cancelled or must wait until the window has room. */
  take(restart: PendingRestart): boolean {
    if (this.#pending.get(restart.slot) !== restart) return false;
    this.cancel(restart);
    if (restart.counted) return true;
    const now = this.#now();
    const room = this.#window.allowedInMs(now);
    if (room === 0) return this.#window.add(now);
    this.#arm({ ...restart, dueAt: this.#ports.own.monotonic() + room });
    return false;
  }

  of(slot: Slot): PendingRestart | undefined {
    return [...this.#pending.values()].find((one) => this.#ports.group(one.slot).includes(slot));
  }

  dueInMs(slot: Slot): number | null {
    const restart = this.of(slot);
    return restart ? Math.max(0, restart.dueAt - this.#ports.own.monotonic()) : null;
  }

  cancel(restart: PendingRestart): void {
    restart.timer?.cancel();
    this.#pending.delete(restart.slot);
  }

  clear(): void {
    for (const one of [...this.#pending.values()]) this.cancel(one);
  }

  #arm(restart: PendingRestart): void {
    this.#pending.set(restart.slot, restart);
    const { own, due } = this.#ports;
    restart.timer = own.timer(Math.max(0, restart.dueAt - own.monotonic()), () => due(restart));
  }

  #now(): number {
    return this.#ports.clock.monotonic();
  }
}
