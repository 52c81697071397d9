import { describe, expect, test } from "bun:test";
import type { RestartPolicy, Strategy } from "../../../src/kernel/supervisor/spec.ts";
import type { PID } from "../../../src/kernel/types.ts";
import { SIGKILL, SIGPAUSE, SIGRESUME, SIGTERM } from "../../../src/lib/signals.ts";
import { seeded } from "../../support/seeded.ts";
import { soak } from "../../support/soak.ts";
import { Supervised } from "../../support/supervised.ts";
import { until } from "../../support/until.ts";

const STRATEGIES: Strategy[] = ["one_for_one", "one_for_all", "rest_for_one"];
const POLICIES: RestartPolicy[] = ["permanent", "transient", "temporary"];
const IDS = ["a", "b", "c", "d"];
const LIMITS = [
  { intensity: 1, periodMs: 10_000 },
  { intensity: 3, periodMs: 60_000 },
  { intensity: 8, periodMs: 40_000 },
];
const SEEDS = soak(10, 40);
const STEPS = 40;

interface Kid {
  policy: RestartPolicy;
  state: "running" | "waiting" | "suspended" | "ended";
  starts: number;
  /** Delays since the last one that ran for a period. */
  attempt: number;
  startedAt: number;
}

/** One restart to come: of the kid that fell and the kids that fell with it. */
interface Due {
  kid: number;
  at: number;
  counted: boolean;
}

/**
 * What a supervisor is to do, said once more in the plainest way: numbers in lists, and no time but that of
 * the events.
 */
class Model {
  now = 0;
  over: "max_restarts_exceeded" | "completed" | undefined;
  readonly kids: Kid[];
  /** Starts that will fail, by kid. */
  readonly broken = new Map<number, number>();
  readonly #strategy: Strategy;
  readonly #limit: { intensity: number; periodMs: number };
  #restarts: number[] = [];
  #dues: Due[] = [];

  constructor(strategy: Strategy, policies: RestartPolicy[], limit: { intensity: number; periodMs: number }) {
    this.#strategy = strategy;
    this.#limit = limit;
    this.kids = policies.map((policy) => ({ policy, state: "running", starts: 1, attempt: 0, startedAt: 0 }));
  }

  get nextDue(): number {
    return Math.min(...this.#dues.map(({ at }) => at));
  }

  restartIn(kid: number): number | null {
    if (this.kids[kid]?.state !== "waiting") return null;
    const due = this.#dues.find((one) => this.#fallers(one.kid).includes(kid));
    return due ? due.at - this.now : null;
  }

  dies(at: number, how: "clean" | "badly" | "suspended"): void {
    const kid = this.#kid(at);
    if (how === "suspended") kid.state = "suspended";
    else if (kid.policy === "temporary" || (kid.policy === "transient" && how === "clean"))
      kid.state = "ended";
    else this.#falls(at, how === "clean", this.now - kid.startedAt);
    if (this.kids.every(({ state }) => state === "ended")) this.over = "completed";
  }

  /** The model restarts a kid. True: it runs. */
  restart(at: number): boolean {
    const due = this.#dues.find((one) => this.#fallers(one.kid).includes(at));
    if (this.#kid(at).state === "waiting" && due) {
      this.#dues = this.#dues.filter((one) => one !== due);
      return this.#startAll(due.kid);
    }
    const kid = this.#kid(at);
    if (kid.state === "running") kid.state = kid.policy === "temporary" ? "ended" : "waiting";
    if (this.#start(at)) return true;
    if (kid.state === "waiting") this.#falls(at, false, 0);
    if (this.kids.every(({ state }) => state === "ended")) this.over = "completed";
    return false;
  }

  /** Time does not run for waiting restarts. */
  pause(ms: number): void {
    this.now += ms;
    for (const due of this.#dues) due.at += ms;
  }

  /** To the next due restart, which must be now. */
  comesDue(): void {
    const due = this.#dues.filter(({ at }) => at === this.now)[0];
    if (!due) throw new Error("nothing is due");
    if (!due.counted && this.#room() > 0) {
      due.at = this.now + this.#room();
      // Behind those that have the same time.
      this.#dues = [...this.#dues.filter((one) => one !== due), due];
      return;
    }
    this.#dues = this.#dues.filter((one) => one !== due);
    if (!due.counted) this.#restarts.push(this.now);
    this.#startAll(due.kid);
  }

  #startAll(fallen: number): boolean {
    for (const at of this.#fallers(fallen)) {
      const { state, policy } = this.#kid(at);
      const down = state === "waiting" || (state === "ended" && policy !== "temporary");
      if (down && !this.#start(at)) {
        this.#falls(at, false, 0);
        return false;
      }
    }
    return true;
  }

  #start(at: number): boolean {
    const left = this.broken.get(at) ?? 0;
    this.broken.set(at, Math.max(0, left - 1));
    if (left > 0) return false;
    const kid = this.#kid(at);
    kid.state = "running";
    kid.starts++;
    kid.startedAt = this.now;
    return true;
  }

  #falls(at: number, clean: boolean, upMs: number): void {
    const kid = this.#kid(at);
    kid.state = "waiting";
    const full = this.#counting().length >= this.#limit.intensity;
    if (full && !clean) {
      this.over = "max_restarts_exceeded";
      return;
    }
    const wait = clean ? this.#room() : 0;
    if (!clean) this.#restarts.push(this.now);
    if (upMs >= this.#limit.periodMs) kid.attempt = 0;
    const longest = this.#limit.periodMs / (2 * this.#limit.intensity);
    const delay = Math.min(Math.min(500, longest) * 2 ** kid.attempt++, longest);
    const fallers = this.#fallers(at);
    for (const other of fallers) {
      const { state, policy } = this.#kid(other);
      if (state === "running") this.#kid(other).state = policy === "temporary" ? "ended" : "waiting";
    }
    const taken = this.#dues.filter((due) => fallers.includes(due.kid));
    this.#dues = this.#dues.filter((due) => !fallers.includes(due.kid));
    this.#dues.push({
      kid: at,
      at: Math.max(this.now + Math.max(delay, wait), ...taken.map((due) => due.at)),
      counted: !clean || taken.some((due) => due.counted),
    });
  }

  #counting(): number[] {
    return this.#restarts.filter((at) => at >= this.now - this.#limit.periodMs);
  }

  #room(): number {
    const counting = this.#counting();
    const oldest = counting[counting.length - this.#limit.intensity];
    return oldest === undefined ? 0 : oldest + this.#limit.periodMs - this.now + 1;
  }

  #fallers(at: number): number[] {
    const all = this.kids.map((_kid, index) => index);
    if (this.#strategy === "one_for_one") return [at];
    return this.#strategy === "one_for_all" ? all : all.slice(at);
  }

  #kid(at: number): Kid {
    const kid = this.kids[at];
    if (!kid) throw new Error(`no kid ${at}`);
    return kid;
  }
}

/** Drives both, and waits after each step until they are the same. */
class Run {
  readonly s = new Supervised();
  readonly #random: () => number;
  readonly #model: Model;
  readonly #steps: string[] = [];
  readonly #strategy: Strategy;
  readonly #limit: { intensity: number; periodMs: number };
  #top: PID = 0;

  constructor(seed: number) {
    this.#random = seeded(seed);
    this.#strategy = this.#pick(STRATEGIES);
    this.#limit = this.#pick(LIMITS);
    const policies = IDS.map(() => this.#pick(POLICIES));
    this.#model = new Model(this.#strategy, policies, this.#limit);
  }

  async toTheEnd(): Promise<void> {
    const children = this.#model.kids.map(({ policy }, at) =>
      this.s.agent(IDS[at] ?? "", { restart: policy }),
    );
    this.#top = await this.s.spawn(this.s.spec(this.#strategy, children, this.#limit));
    const done = this.s.h.kernel.processes.wait(this.#top);
    for (let step = 0; step < STEPS && !this.#model.over; step++) {
      await this.#step();
      if (!this.#model.over) await until(() => this.#differences() === "").catch(() => this.#differ());
    }
    if (!this.#model.over) void this.s.h.kernel.supervisors.stopSupervisor(this.#top);
    const exit = await done;
    expect([exit.reason, this.#steps]).toEqual([this.#model.over ?? "terminated", this.#steps]);
    expect(this.s.h.kernel.processes.count).toBe(0);
  }

  async #step(): Promise<void> {
    const at = Math.floor(this.#random() * IDS.length);
    const dice = this.#random();
    const runs = this.#model.kids[at]?.state === "running";
    if (dice < 0.35) await this.#advance(Math.floor(this.#random() * this.#limit.periodMs * 0.7));
    else if (dice < 0.4) await this.#pause(Math.floor(this.#random() * 5_000));
    else if (dice < 0.5) this.#break(at);
    else if (dice < 0.58) await this.#restart(at);
    else if (runs) await this.#die(at);
  }

  async #die(at: number): Promise<void> {
    const { s } = this;
    const id = IDS[at] ?? "";
    const pid = s.pid(this.#top, id);
    const way = this.#pick(["finish", "finish", "fail", "fail", "term", "kill", "suspend"] as const);
    this.#steps.push(`${way} ${id}`);
    if (way === "finish") await s.finish(id);
    else if (way === "fail") await s.fail(id);
    else if (way === "suspend") await s.h.kernel.lifecycle.suspend(pid);
    else s.h.kernel.signals.signal(pid, way === "term" ? SIGTERM : SIGKILL);
    this.#model.dies(at, way === "finish" ? "clean" : way === "suspend" ? "suspended" : "badly");
  }

  async #restart(at: number): Promise<void> {
    const id = IDS[at] ?? "";
    this.#steps.push(`restart ${id}`);
    const started = await this.s.h.kernel.supervisors.restartChild(this.#top, id).then(
      () => true,
      () => false,
    );
    expect([this.#model.restart(at), this.#steps]).toEqual([started, this.#steps]);
  }

  #break(at: number): void {
    const times = 1 + Math.floor(this.#random() * 2);
    this.#steps.push(`break ${IDS[at]} ${times} times`);
    this.s.broken.set(IDS[at] ?? "", times);
    this.#model.broken.set(at, times);
  }

  async #pause(ms: number): Promise<void> {
    const { signals } = this.s.h.kernel;
    this.#steps.push(`pause ${ms}`);
    signals.signal(this.#top, SIGPAUSE);
    await this.s.clock.advance(ms);
    signals.signal(this.#top, SIGRESUME);
    this.#model.pause(ms);
  }

  /** From one due restart to the next: each takes its time in the real one, and none in the model. */
  async #advance(ms: number): Promise<void> {
    const target = this.#model.now + ms;
    this.#steps.push(`advance ${ms}`);
    while (!this.#model.over && this.#model.nextDue <= target) {
      const due = this.#model.nextDue;
      await this.s.clock.advance(due - this.#model.now);
      this.#model.now = due;
      while (!this.#model.over && this.#model.nextDue === due) this.#model.comesDue();
      if (!this.#model.over) await until(() => this.#differences() === "").catch(() => this.#differ());
    }
    if (this.#model.over) return;
    await this.s.clock.advance(target - this.#model.now);
    this.#model.now = target;
  }

  #differences(): string {
    const real = this.s.children(this.#top);
    const differing = this.#model.kids.flatMap((kid, at) => {
      const child = real[at];
      const is = [child?.state, child?.restarts, child?.restartInMs];
      const expected = [kid.state, kid.starts - 1, this.#model.restartIn(at)];
      return String(is) === String(expected) ? [] : [`${IDS[at]}: expected ${expected}, got ${is}`];
    });
    return differing.join("; ");
  }

  #differ(): never {
    throw new Error(
      `${this.#strategy}, ${this.#model.kids.map(({ policy }) => policy)}: ${this.#differences()}\n${this.#steps.join("\n")}`,
    );
  }

  #pick<T>(from: readonly T[]): T {
    const picked = from[Math.floor(this.#random() * from.length)];
    if (picked === undefined) throw new Error("nothing to pick from");
    return picked;
  }
}

describe("a supervisor behaves like its model for random events", () => {
  for (let seed = 1; seed <= SEEDS; seed++) {
    test(`seed ${seed}`, async () => {
      const run = new Run(seed);
      await using _end = run.s;
      await run.toTheEnd();
    }, 180_000); // So that it says itself what it waits for in vain.
  }
});
