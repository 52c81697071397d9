import type { Clock, Timer } from "../../lib/clock.ts";
import { type RestartLimit, RestartWindow } from "./restart-policy.ts";
import type { Slot } from "./slot.ts";

/** A restart that waits for its time: of the slot that fell, and of who fell with it. */
export interface PendingRestart {
  readonly slot: Slot;
  /** It has its place in the window. A clean end has none before the restart is made. */
  readonly counted: boolean;
  /** On the supervisor's own clock. */
  readonly dueAt: number;
  timer: Timer | undefined;
}

interface SchedulePorts {
  limit: RestartLimit;
  /** Counts the window. */
  clock: Clock;
  /** The supervisor's: it stands still while the supervisor is paused, and with it every delay. */
  own: Clock;
  /** Who falls with a slot, and itself. */
  group(slot: Slot): readonly Slot[];
  due(restart: PendingRestart): void;
}

/** Which restarts of one supervisor are counted, and which wait. Owns their timers. */
export class RestartSchedule {
  readonly #ports: SchedulePorts;
  readonly #window: RestartWindow;
  readonly #pending = new Map<Slot, PendingRestart>();

  constructor(ports: SchedulePorts) {
    this.#ports = ports;
    this.#window = new RestartWindow(ports.limit);
  }

  /**
   * Ms until what has fallen may be started again; null when that is one restart too many. One that failed
   * counts at once, as in OTP. One that ended cleanly counts when it is started, and waits until there is
   * room for it.
   */
  onExit(slot: Slot, clean: boolean, upMs: number): number | null {
    const now = this.#now();
    const room = clean ? this.#window.roomInMs(now) : this.#window.add(now) ? 0 : null;
    if (room === null || room === Number.POSITIVE_INFINITY) return null;
    return Math.max(slot.delays.next(upMs), room);
  }

  /** Restarts that count now. */
  get count(): number {
    return this.#window.count(this.#now());
  }

  /** Takes over what waits already of those that fall with the slot: neither its time nor its count is lost. */
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

  /** True: it is to be made now, and waits no more. False: it is none any more, or has to wait for room. */
  take(restart: PendingRestart): boolean {
    if (this.#pending.get(restart.slot) !== restart) return false;
    this.cancel(restart);
    if (restart.counted) return true;
    const now = this.#now();
    const room = this.#window.roomInMs(now);
    if (room === 0) return this.#window.add(now);
    this.#arm({ ...restart, dueAt: this.#ports.own.monotonic() + room });
    return false;
  }

  /** The one that a slot waits for. */
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
