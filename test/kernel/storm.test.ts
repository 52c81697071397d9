import { describe, expect, test } from "bun:test";
import type { ExitStatus, PID, ProviderChoice } from "../../src/kernel/types.ts";
import { SIGINT, SIGKILL, SIGPAUSE, SIGRESUME, SIGTERM, type Signal } from "../../src/lib/signals.ts";
import { SyscallError } from "../../src/plugin/index.ts";
import { settled } from "../support/fake-clock.ts";
import { calls, KernelHarness, type Model, says, silent } from "../support/kernel.ts";
import { seeded } from "../support/seeded.ts";
import { soak } from "../support/soak.ts";
import { until } from "../support/until.ts";

/** Spawned by PID 0, before the first of them is killed; agents spawn some more. */
const PROCESSES = soak(120, 1_000);
const PER_TURN = 5;
const TURNS = soak(200, 800);
/** Runs that were suspended and resumed in it, at least. */
const GONE_ON = soak(5, 20);
const GROUPS = ["red", "green", "blue"];

/** What a call may fail with when other calls kill its process: a refusal, and never a defect. */
const REFUSALS = new Set(["NOT_FOUND", "CLOSED", "CANCELLED", "TIMEOUT", "EXHAUSTED", "INVALID"]);

/** Agents that write to each other and spawn, and a PID 0 that does to them whatever can be done, by one seed. */
class Storm {
  readonly h: KernelHarness;
  readonly pids: PID[] = [];
  /** As far as this side knows. */
  readonly #live = new Set<PID>();
  readonly #suspended: string[] = [];
  readonly uuids = new Map<PID, string>();
  readonly exits = new Map<PID, ExitStatus>();
  /** How often each kind of act was answered with what. */
  readonly answers: Record<string, number> = {};
  readonly defects: unknown[] = [];
  readonly #random: () => number;
  readonly #provider: ProviderChoice;
  /** Asked, and not answered yet. */
  pending = 0;
  #messages = 0;

  /** `concurrency`: model calls at once; those that wait for their place are killed too. */
  constructor(seed: number, concurrency: number) {
    this.#random = seeded(seed);
    this.h = new KernelHarness({
      model: (request, signal) => this.#answer(request, signal),
      // No process ignores signals in it: one turn of the loop may take longer than the usual grace.
      limits: { timeout: null, grace: 60_000 },
      planChild: async () => ({ provider: this.#provider }),
      callbacks: {
        onSpawn: (pid) => this.#spawned(pid),
      },
    });
    const { provider, devices } = this.h.opts();
    devices.release();
    this.#provider = { ...provider, concurrency };
  }

  async spawn(): Promise<void> {
    await this.#ask("spawn", () => this.h.spawn("weather it", { provider: this.#provider }));
  }

  /** One thing that PID 0 does to one of them. */
  act(acts: Record<string, Act>): void {
    const { kernel } = this.h;
    const [pid, other] = [this.#one(), this.#one()];
    const name = this.#pick(Object.keys(acts));
    void this.#ask(name, async () => await acts[name]?.(kernel, pid, other, this.#random));
  }

  /** Resumes a suspended run. */
  goOn(): void {
    const uuid = this.#suspended.pop();
    if (uuid === undefined) return;
    void this.#ask("go on", () =>
      this.h.kernel.lifecycle.resume(uuid, null, this.h.opts({ provider: this.#provider })),
    );
  }

  /**
   * Kills what is left; who blocks or handles what he can, can't this. Also what a resume that is under way still
   * brings up when nothing else lives any more.
   */
  async end(): Promise<void> {
    const { kernel } = this.h;
    const killed = new Set<PID>();
    const over = async (): Promise<boolean> => {
      for (const pid of [...this.#live].filter((one) => !killed.has(one))) {
        killed.add(pid);
        void this.#ask("last kill", () => kernel.processes.kill(pid, SIGKILL));
      }
      await settled();
      return kernel.processes.count === 0 && this.pending === 0;
    };
    await until(over, "the end of all", 150_000);
  }

  #spawned(pid: PID): void {
    const { uuid } = this.h.kernel.processes.info(pid);
    this.pids.push(pid);
    this.uuids.set(pid, uuid);
    this.#live.add(pid);
    void this.#ask("wait", async () => {
      const exit = await this.h.kernel.processes.wait(pid);
      this.exits.set(pid, exit);
      this.#live.delete(pid);
      if (exit.reason === "suspended") this.#suspended.push(uuid);
    });
  }

  /** Asks for something and counts what comes of it. */
  async #ask(what: string, run: () => unknown): Promise<void> {
    this.pending++;
    let came = "done";
    try {
      await run();
    } catch (thrown) {
      came = thrown instanceof SyscallError ? thrown.code : "defect";
      if (!REFUSALS.has(came)) this.defects.push(thrown);
    }
    this.pending--;
    this.answers[`${what}: ${came}`] = (this.answers[`${what}: ${came}`] ?? 0) + 1;
  }

  /** What one of the agents does next. */
  #answer: Model = (request, signal) => {
    const dice = this.#random();
    if (dice < 0.05) return says("weathered");
    if (dice < 0.35) return calls(this.#message(), this.#message());
    if (dice < 0.45) return calls(["ReadMessages", { wait_ms: 0 }]);
    // Until a message arrives.
    if (dice < 0.75) return calls(["ReadMessages", { wait_ms: 60_000 }]);
    if (dice < 0.85) return calls(["Agent", { intent: "weather it below" }], this.#message());
    if (dice < 0.87) throw new SyscallError("INVALID", "the model refuses");
    return silent(request, signal);
  };

  #message(): [string, Record<string, unknown>] {
    return ["SendMessage", { to: this.#one(), message: `message ${++this.#messages}` }];
  }

  /** Mostly a live one. */
  #one(): PID {
    const live = [...this.#live];
    return this.#pick(live.length > 0 && this.#random() < 0.9 ? live : this.pids);
  }

  #pick<T>(from: readonly T[]): T {
    const one = from[Math.floor(this.#random() * from.length)];
    if (one === undefined) throw new Error("nothing to pick from");
    return one;
  }
}

type Act = (kernel: KernelHarness["kernel"], pid: PID, other: PID, random: () => number) => unknown;

/** Acts that end no process. */
const GENTLE: Record<string, Act> = {
  pause: (kernel, pid) => kernel.processes.kill(pid, SIGPAUSE),
  resume: (kernel, pid) => kernel.processes.kill(pid, SIGRESUME),
  "resume tree": (kernel, pid) => kernel.signals.signalTree(pid, SIGRESUME),
  "pause tree": (kernel, pid) => kernel.signals.signalTree(pid, SIGPAUSE),
  block: (kernel, pid, _other, random) => kernel.signals.sigBlock(pid, anySignal(random)),
  unblock: (kernel, pid, _other, random) => kernel.signals.sigUnblock(pid, anySignal(random)),
  handle: (kernel, pid, _other, random) => kernel.signals.sigHandle(pid, anySignal(random), () => {}),
  join: (kernel, pid, _other, random) => kernel.groups.joinGroup(pid, anyGroup(random)),
  leave: (kernel, pid, _other, random) => kernel.groups.leaveGroup(pid, anyGroup(random)),
  "resume group": (kernel, _pid, _other, random) => kernel.groups.signalGroup(anyGroup(random), SIGRESUME),
  send: (kernel, pid, other, random) => kernel.ipc.send(random() < 0.5 ? 0 : other, pid, "hello"),
  recv: (kernel, pid, _other, random) => kernel.ipc.recv(pid, { timeoutMs: random() * 50 }),
  pipe: (kernel, pid, other) => kernel.ipc.pipe(pid, other),
  checkpoint: (kernel, pid) => kernel.lifecycle.checkpoint(pid),
  revoke: (kernel, pid) => kernel.capabilities.revoke(pid, ["SendMessage"]),
  watch: (kernel, pid) => drain(kernel.attach(pid)),
  "look away": (kernel, pid) => firstOf(kernel.attach(pid)),
  trace: (kernel, pid) => drain(kernel.attachDebug(pid)),
  thread: async (kernel, pid, other, random) => {
    const ends = random() < 0.5;
    const tid = await kernel.concurrency.spawnThread(pid, "storm", async ({ append, signal }) => {
      await append({ role: "user", content: "a thread was here" });
      await kernel.ipc.send(pid, other, "from a thread");
      if (!ends) await aborted(signal);
    });
    const options = random() < 0.5 ? {} : { timeoutMs: random() * 20 };
    await Promise.all([1, 2].map(() => kernel.concurrency.joinThread(pid, tid, options)));
  },
  coroutine: async (kernel, pid, _other, random) => {
    const coid = await kernel.concurrency.spawnCoroutine(pid, "storm", async (co, input) => {
      let next = input;
      for (let n = 0; n < 5; n++) next = await co.yield([n, next]);
      if (random() < 0.3) await aborted(co.signal);
    });
    for (let done = false, turns = Math.floor(random() * 8); !done && turns > 0; turns--) {
      ({ done } = await kernel.concurrency.resumeCoroutine(pid, coid, turns));
    }
  },
};

const ALL: Record<string, Act> = {
  ...GENTLE,
  term: (kernel, pid) => kernel.processes.kill(pid, SIGTERM),
  kill: (kernel, pid) => kernel.processes.kill(pid, SIGKILL),
  int: (kernel, pid) => kernel.processes.kill(pid, SIGINT),
  suspend: (kernel, pid) => kernel.lifecycle.suspend(pid),
  "kill tree": (kernel, pid) => kernel.signals.signalTree(pid, SIGTERM),
  "kill group": (kernel, _pid, _other, random) =>
    random() < 0.05 && kernel.groups.signalGroup(anyGroup(random), SIGKILL),
};

function anySignal(random: () => number): Signal {
  return random() < 0.5 ? SIGTERM : random() < 0.5 ? SIGINT : SIGPAUSE;
}

function anyGroup(random: () => number): string {
  return GROUPS[Math.floor(random() * GROUPS.length)] ?? "red";
}

async function drain(channel: AsyncIterable<unknown>): Promise<void> {
  for await (const _event of channel);
}

async function firstOf(channel: AsyncIterable<unknown>): Promise<void> {
  for await (const _event of channel) return;
}

function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    signal.addEventListener("abort", () => resolve(), { once: true });
  });
}

describe(`${PROCESSES} processes that write to each other, spawn, and are killed at random`, () => {
  test.each([
    [1, 10_000],
    [2, 32],
  ])(
    "seed %d, %d model calls at once: nothing is left, and every end is reported",
    async (seed, concurrency) => {
      const storm = new Storm(seed, concurrency);
      await using h = storm.h;
      let most = 0;
      for (let turn = 0; turn < TURNS; turn++) {
        const spawning = turn * PER_TURN < PROCESSES;
        if (spawning) await Promise.all(Array.from({ length: PER_TURN }, () => storm.spawn()));
        for (let n = 0; n < PER_TURN; n++) storm.act(spawning ? GENTLE : ALL);
        storm.goOn();
        await settled();
        most = Math.max(most, h.kernel.processes.count);
      }
      // A slow disk suspends late: until enough have resumed, more are suspended.
      const hasWeathered = async (): Promise<boolean> => {
        if (h.kernel.processes.count < PER_TURN) await storm.spawn();
        storm.act({ suspend: (kernel, pid) => kernel.lifecycle.suspend(pid) });
        storm.goOn();
        await settled();
        return (storm.answers["go on: done"] ?? 0) > GONE_ON;
      };
      await until(hasWeathered, "enough that have gone on", 120_000);
      await storm.end();
      expect(storm.defects).toEqual([]);
      expect(h.warnings).toEqual([]);
      // Some have weathered it before the last is spawned.
      expect(most).toBeGreaterThan(0.9 * PROCESSES);
      expect(storm.exits.size).toBe(storm.pids.length);
      expect(Object.entries(h.kernel.resourceCounts()).filter(([, count]) => count > 0)).toEqual([]);
      expect([h.leases, h.openFiles, h.clock.pending]).toEqual([0, 0, 0]);
      // On disk, each run has the end that the last of its processes was said to have.
      const last = new Map([...storm.uuids].map(([pid, uuid]) => [uuid, pid]));
      const runs = await h.runs.list();
      expect(new Map(runs.map(({ uuid, pid }) => [uuid, pid]))).toEqual(last);
      for (const { pid, state, exit_code, exit_reason } of runs) {
        const exit = storm.exits.get(pid);
        expect<unknown>([exit_code, exit_reason]).toEqual([exit?.code, exit?.reason]);
        expect(state).toBe(exit?.reason === "suspended" ? "suspended" : "dead");
      }
    },
    180_000,
  );
});
