import { describe, expect, test } from "bun:test";
import { KeyLimiter } from "../../../src/kernel/llm/key-limiter.ts";
import { SyscallError } from "../../../src/plugin/index.ts";
import { FakeClock, settled } from "../../support/fake-clock.ts";
import { seeded } from "../../support/seeded.ts";

const MODELS = ["small", "large"];
const PER_MINUTE = 40;

/**
 * Callers that come, ask, are answered, refused or cut off, and give up, in any order, on a provider that says what is
 * left and asks to be left alone now and then.
 */
class Storm {
  readonly clock = new FakeClock();
  readonly slots = new KeyLimiter(this.clock, 8);
  readonly begun: number[] = [];
  readonly ends: Promise<void>[] = [];
  readonly #random: () => number;
  /** Monotonic, by model: no request begins before. */
  readonly #heldUntil = new Map<string, number>();
  /** By model: what the last report leaves, and until when it holds. */
  readonly #left = new Map<string, { left: number; until: number }>();
  #order = 0;
  #running = 0;

  constructor(seed: number) {
    this.#random = seeded(seed);
    this.slots.limits = { concurrency: 8, requestsPerMinute: PER_MINUTE };
  }

  come(): void {
    const stop = new AbortController();
    const patienceMs = this.#below(2) === 0 ? 5_000 : 200_000;
    const request = {
      order: this.#order++,
      tree: `t${this.#below(5)}`,
      model: MODELS[this.#below(2)] ?? "small",
      patienceMs,
      isRetry: this.#below(4) === 0,
    };
    if (this.#below(5) === 0) this.clock.timer(this.#below(20_000), () => stop.abort(new Error("gives up")));
    this.ends.push(this.#ask(request, stop.signal));
  }

  async #ask(request: Parameters<KeyLimiter["acquire"]>[0], signal: AbortSignal): Promise<void> {
    const { model, patienceMs } = request;
    try {
      await this.slots.acquire(request, signal);
    } catch (error) {
      if (error instanceof SyscallError) expect(error.retryAfterMs ?? 0).toBeGreaterThan(patienceMs);
      else expect(signal.aborted).toBe(true);
      return;
    }
    this.#begins(model);
    await new Promise<void>((resolve) => this.clock.timer(this.#below(4_000), resolve));
    const roll = this.#random();
    if (roll < 0.1) {
      const ms = this.#below(60_000) + 1;
      this.#heldUntil.set(model, Math.max(this.#heldUntil.get(model) ?? 0, this.clock.monotonic() + ms));
      const error = new SyscallError("EXHAUSTED", "wait", { retryAfterMs: ms });
      this.slots.holdOff(model, ms, error);
    } else if (roll < 0.3) {
      const remaining = this.#below(4);
      const reset_ms = this.#below(30_000) + 1;
      // Those that were released just now have not noticed yet: they count against what was said before.
      const left = remaining + this.slots.running - this.#running;
      this.#left.set(model, { left, until: this.clock.monotonic() + reset_ms });
      this.slots.report(model, { requests: { limit: 4, remaining, reset_ms } });
    }
    this.#running--;
    this.slots.release(roll < 0.2 ? "refused" : roll < 0.9 ? "answered" : "other");
  }

  #begins(model: string): void {
    // The time of day has no fractions as fine as those of the other clock.
    const now = this.clock.monotonic() + 0.01;
    this.#running++;
    expect(this.slots.running).toBeLessThanOrEqual(8);
    expect(this.begun.filter((time) => time > now - 59_999.9).length).toBeLessThan(PER_MINUTE);
    this.begun.push(now);
    expect(now).toBeGreaterThanOrEqual(this.#heldUntil.get(model) ?? 0);
    const said = this.#left.get(model);
    if (said === undefined || now >= said.until) return;
    expect(said.left).toBeGreaterThan(0);
    said.left--;
  }

  #below(n: number): number {
    return Math.floor(this.#random() * n);
  }
}

describe("a wait that begins while other calls wait", () => {
  const limits = (remaining: number) => ({ requests: { limit: 9, remaining, reset_ms: 60_000 } });
  const causes: Record<string, (slots: KeyLimiter) => void> = {
    "a refusal": (slots) => slots.holdOff("m", 60_000, new SyscallError("EXHAUSTED", "wait")),
    "what the headers say": (slots) => slots.report("m", limits(0)),
    "the last request that they allow": (slots) => {
      slots.report("m", limits(1));
      slots.release("answered");
    },
  };
  test.each(Object.keys(causes))(
    "by %s: a caller that will not wait fails at once, the others stay",
    async (cause) => {
      const slots = new KeyLimiter(new FakeClock(), 1);
      const never = new AbortController();
      const ends: string[] = [];
      const ask = (name: string, model: string, patienceMs: number): void => {
        const request = { order: ends.length, tree: name, model, patienceMs, isRetry: false };
        slots.acquire(request, never.signal).then(
          () => ends.push(`${name} begins`),
          (error: SyscallError) => ends.push(`${name} ${error.code}`),
        );
      };
      ask("first", "m", 0);
      // By the last request: it is this one's turn, and no other follows.
      if (cause.startsWith("the last")) ask("second", "m", 0);
      ask("impatient", "m", 59_999);
      ask("patient", "m", 60_000);
      ask("other", "n", 0);
      await settled();
      expect(ends).toEqual(["first begins"]);
      causes[cause]?.(slots);
      await settled();
      expect(ends.slice(1).filter((end) => !end.startsWith("second"))).toEqual(["impatient EXHAUSTED"]);
      expect(slots.status).toMatchObject({ running: 1, waiting: 2 });
      slots.release("answered");
      await settled();
      expect(ends.at(-1)).toBe("other begins");
      never.abort();
    },
  );
});

describe("the slots of one key", () => {
  test.each(Array.from({ length: 40 }, (_, seed) => seed))(
    "slots are granted within every limit, and no waiter is forgotten (seed %i)",
    async (seed) => {
      const storm = new Storm(seed);
      const random = seeded(seed + 1000);
      for (let i = 0; i < 150; i++) {
        storm.come();
        if (random() < 0.5) await storm.clock.advance(random() * 3_000);
        // Whatever time it is made: the day before, or after.
        if (random() < 0.05) storm.clock.set(storm.clock.now() - random() * 86_400_000);
      }
      let over = false;
      const all = Promise.all(storm.ends).then(() => {
        over = true;
      });
      for (let minutes = 0; minutes < 60 && !over; minutes++) await storm.clock.advance(60_000);
      await all;
      await settled();
      expect(storm.slots.status).toMatchObject({ running: 0, waiting: 0, trees: 0 });
      // Callers that gave up later than they were served have their timers left, the places have none.
      await storm.clock.advance(60_000);
      expect(storm.clock.pending).toBe(0);
      expect(storm.begun.length).toBeGreaterThan(50);
    },
  );
});
