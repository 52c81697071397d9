/** Makes few events of many lines, so that a noisy monitor neither floods its agent nor loses a line uncounted. */

import type { Clock, Timer } from "../lib/clock.ts";

/** Lines that come within this time are one event. */
const QUIET_MS = 200;
/** Characters of a line, and of an event. */
const MAX_LINE = 500;
const MAX_EVENT = 3000;
/** Wakes that may follow each other at once, the time until there is one more, and the most in an hour. */
const BURST = 10;
const REFILL_MS = 2000;
const PER_HOUR = 120;
const HOUR_MS = 3_600_000;

interface EventBatcherOptions {
  clock: Pick<Clock, "monotonic" | "timer">;
  /** `hasLines`: every line that was added so far is in it, or counted by it. */
  emit(text: string, hasLines: boolean): void;
  /** A silence of this length is one event. Absent: none is. */
  stallMs?: number;
}

/** Owned by one monitor, which calls `close` at its end. */
export class EventBatcher {
  readonly #o: EventBatcherOptions;
  #lines: string[] = [];
  #chars = 0;
  /** Lines that no event will show. */
  #suppressed = 0;
  #timer: Timer | undefined;
  #stall: Timer | undefined;
  #tokens = BURST;
  #refilledAt: number;
  /** When the wakes of the last hour were. */
  #wakes: number[] = [];

  constructor(o: EventBatcherOptions) {
    this.#o = o;
    this.#refilledAt = o.clock.monotonic();
    this.#watchSilence();
  }

  add(line: string): void {
    const text = line.length > MAX_LINE ? `${line.slice(0, MAX_LINE)}…` : line;
    this.#lines.push(text);
    this.#chars += text.length + 1;
    // The newest lines are shown: they say how things are now.
    while (this.#chars > MAX_EVENT && this.#lines.length > 1) {
      this.#chars -= (this.#lines.shift()?.length ?? 0) + 1;
      this.#suppressed++;
    }
    this.#timer ??= this.#o.clock.timer(QUIET_MS, () => this.#flush());
    this.#watchSilence();
  }

  /** Ends the timers and returns what no event has shown yet; null when there is nothing. */
  close(): string | null {
    this.#timer?.cancel();
    this.#stall?.cancel();
    return this.#lines.length === 0 && this.#suppressed === 0 ? null : this.#take();
  }

  #flush(): void {
    this.#timer = undefined;
    const wait = this.#waitMs();
    if (wait > 0) {
      this.#timer = this.#o.clock.timer(wait, () => this.#flush());
      return;
    }
    this.#tokens--;
    this.#wakes.push(this.#o.clock.monotonic());
    this.#o.emit(this.#take(), true);
  }

  /** Ms until the next wake is allowed. */
  #waitMs(): number {
    const now = this.#o.clock.monotonic();
    const refills = Math.floor((now - this.#refilledAt) / REFILL_MS);
    this.#tokens = Math.min(BURST, this.#tokens + refills);
    this.#refilledAt += refills * REFILL_MS;
    this.#wakes = this.#wakes.filter((at) => now - at < HOUR_MS);
    const [oldest = now] = this.#wakes;
    if (this.#wakes.length >= PER_HOUR) return Math.max(1, oldest + HOUR_MS - now);
    return this.#tokens > 0 ? 0 : Math.max(1, this.#refilledAt + REFILL_MS - now);
  }

  #take(): string {
    const before = this.#suppressed > 0 ? [`[${this.#suppressed} events suppressed]`] : [];
    const text = [...before, ...this.#lines].join("\n");
    this.#lines = [];
    this.#chars = 0;
    this.#suppressed = 0;
    return text;
  }

  #watchSilence(): void {
    const { clock, stallMs, emit } = this.#o;
    if (stallMs === undefined) return;
    this.#stall?.cancel();
    this.#stall = clock.timer(stallMs, () => emit(`[no output for ${Math.round(stallMs / 1000)} s]`, false));
  }
}
