import { describe, expect, test } from "bun:test";
import type { ExitStatus, SyscallEvent } from "../../src/kernel/types.ts";
import { SIGINT, SIGKILL, SIGPAUSE, SIGRESUME, SIGTERM, type Signal } from "../../src/lib/signals.ts";
import type { FsPort } from "../../src/store/files/fs-port.ts";
import { codeNow } from "../support/failure.ts";
import { FakeClock, settled } from "../support/fake-clock.ts";
import { KernelHarness, type Model, says, silent } from "../support/kernel.ts";
import { seeded } from "../support/seeded.ts";
import { soak } from "../support/soak.ts";
import { until } from "../support/until.ts";

const SIGNALS = { TERM: SIGTERM, KILL: SIGKILL, INT: SIGINT, PAUSE: SIGPAUSE, RESUME: SIGRESUME } as const;
type Name = keyof typeof SIGNALS;

test("the signals have the specified numbers", () => {
  expect(Object.values(SIGNALS)).toEqual([1, 2, 3, 4, 5]);
});

/** What is to be seen, in order: by default, with a handler, blocked and then unblocked, both. */
type Row = [byDefault: string, handled: string, blocked: string, both: string];

/**
 * The whole grid. "ends" is with the signal's own code and reason; "refused" is what the process asked for: a
 * handler or a block for KILL.
 */
const GRID: Record<"running" | "paused" | "suspending", Record<Name, Row>> = {
  running: {
    TERM: ["ends", "handled, runs", "pending, ends", "pending, handled, runs"],
    INT: ["ends", "handled, runs", "pending, ends", "pending, handled, runs"],
    KILL: ["ends", "refused, ends", "refused, ends", "refused, ends"],
    PAUSE: ["paused", "handled, runs", "pending, paused", "pending, handled, runs"],
    RESUME: ["runs", "handled, runs", "pending, runs", "pending, handled, runs"],
  },
  paused: {
    TERM: ["ends paused", "handled, paused", "pending, ends paused", "pending, handled, paused"],
    INT: ["ends paused", "handled, paused", "pending, ends paused", "pending, handled, paused"],
    KILL: ["ends paused", "refused, ends paused", "refused, ends paused", "refused, ends paused"],
    PAUSE: ["paused", "handled, paused", "pending, paused", "pending, handled, paused"],
    RESUME: ["runs", "handled, paused", "pending, runs", "pending, handled, paused"],
  },
  suspending: {
    TERM: ["ends", "handled, suspended", "pending, ends", "pending, handled, suspended"],
    INT: ["ends", "handled, suspended", "pending, ends", "pending, handled, suspended"],
    KILL: ["ends", "refused, ends", "refused, ends", "refused, ends"],
    PAUSE: ["suspended", "handled, suspended", "pending, suspended", "pending, handled, suspended"],
    RESUME: ["suspended", "handled, suspended", "pending, suspended", "pending, handled, suspended"],
  },
};

const OWN: Record<number, { code: number; reason: string }> = {
  [SIGTERM]: { code: 143, reason: "terminated" },
  [SIGKILL]: { code: 137, reason: "killed" },
  [SIGINT]: { code: 130, reason: "interrupted" },
};

const HOW = ["by default", "handled", "blocked", "blocked and handled"] as const;
const CALLS = ["signal", "kill"] as const;

describe("the effect of a signal", () => {
  for (const [state, rows] of Object.entries(GRID)) {
    for (const [name, row] of Object.entries(rows)) {
      const signal = SIGNALS[name as Name];
      for (const call of CALLS) {
        test(`${call} ${name}, ${state}`, async () => {
          for (const [at, how] of HOW.entries()) {
            await using h = new KernelHarness({ model: silent });
            expect(`${how}: ${await seen(h, call, signal, state, how)}`).toBe(`${how}: ${row[at]}`);
          }
        });
      }
    }
  }

  for (const name of Object.keys(SIGNALS) as Name[]) {
    const signal = SIGNALS[name];
    for (const call of CALLS) {
      test(`${call} ${name} to an ended process: a zombie, and a dead one`, async () => {
        for (const how of HOW) {
          const atZombie: string[] = [];
          await using h = new KernelHarness({
            model: silent,
            callbacks: {
              onComplete: (pid) => {
                expect(h.kernel.processes.info(pid).state).toBe("zombie");
                atZombie.push(tried(pid));
              },
            },
          });
          const tried = (pid: number): string => codeNow(() => send(h, call, pid, signal));
          const pid = await h.spawn("go");
          prepare(h, pid, signal, how, () => {});
          h.kernel.processes.kill(pid, SIGKILL);
          const exit = await h.kernel.processes.wait(pid);
          // Kill of what has ended is nothing, Signal is an error; what is no process any more is none for both.
          expect(atZombie).toEqual([call === "signal" ? "NOT_FOUND" : ""]);
          expect(tried(pid)).toBe("NOT_FOUND");
          expect(exit).toMatchObject({ code: 137, reason: "killed" });
        }
      });
    }
  }
});

/** Brings a process into a state, sends it the signal, and says what came of it in the words of the grid. */
async function seen(
  h: KernelHarness,
  call: (typeof CALLS)[number],
  signal: Signal,
  state: string,
  how: (typeof HOW)[number],
): Promise<string> {
  const words: string[] = [];
  const pid = await h.spawn("go");
  const waited = h.kernel.processes.wait(pid);
  if (state === "paused") h.kernel.processes.kill(pid, SIGPAUSE);
  if (!prepare(h, pid, signal, how, () => words.push("handled"))) words.push("refused");
  if (state === "suspending") void h.kernel.lifecycle.suspend(pid);
  const trace = h.kernel.attachDebug(pid);
  send(h, call, pid, signal);
  const { result } = await first(trace);
  if (result === "pending") words.push("pending");
  if (how.startsWith("blocked") && signal !== SIGKILL) h.kernel.signals.sigUnblock(pid, signal);
  const status = state === "suspending" || ends(words, signal) ? await waited : undefined;
  await settled();
  words.push(fate(h, pid, signal, status));
  return words.join(", ");
}

/** By default, the signal ends its process. */
function ends(words: string[], signal: Signal): boolean {
  return OWN[signal] !== undefined && !words.includes("handled");
}

function fate(h: KernelHarness, pid: number, signal: Signal, status: ExitStatus | undefined): string {
  if (!status) return h.kernel.processes.info(pid).is_paused ? "paused" : "runs";
  if (status.reason === "suspended") return "suspended";
  expect(status.code).toBe(OWN[signal]?.code ?? -1);
  if (status.reason === "killed_while_paused") return "ends paused";
  expect(status.reason).toBe(OWN[signal]?.reason as never);
  return "ends";
}

/** False when the kernel refuses it. */
function prepare(
  h: KernelHarness,
  pid: number,
  signal: Signal,
  how: (typeof HOW)[number],
  handler: () => void,
): boolean {
  const codes: string[] = [];
  if (how.includes("handled")) codes.push(codeNow(() => h.kernel.signals.sigHandle(pid, signal, handler)));
  if (how.includes("blocked")) codes.push(codeNow(() => h.kernel.signals.sigBlock(pid, signal)));
  const refused = codes.filter((code) => code !== "");
  expect(refused).toEqual(signal === SIGKILL ? codes.map(() => "INVALID") : []);
  return refused.length === 0;
}

function send(h: KernelHarness, call: (typeof CALLS)[number], pid: number, signal: Signal): void {
  if (call === "signal") h.kernel.signals.signal(pid, signal);
  else h.kernel.processes.kill(pid, signal);
}

async function first(trace: AsyncIterable<SyscallEvent>): Promise<SyscallEvent> {
  for await (const event of trace) return event;
  throw new Error("the trace ended");
}

describe("a signal", () => {
  test("that is unknown is INVALID in every call", async () => {
    await using h = new KernelHarness({ model: silent });
    const pid = await h.spawn("go");
    const { signals, processes } = h.kernel;
    for (const number of [0, 6, 9, 1.5, Number.NaN, -1]) {
      const wrong = number as Signal;
      for (const run of [
        () => signals.signal(pid, wrong),
        () => signals.signalTree(pid, wrong),
        () => signals.sigHandle(pid, wrong, () => {}),
        () => signals.sigBlock(pid, wrong),
        () => signals.sigUnblock(pid, wrong),
        () => processes.kill(pid, wrong),
      ])
        expect(codeNow(run)).toBe("INVALID");
    }
  });

  test("is pending once, for any number of signals", async () => {
    await using h = new KernelHarness({ model: silent });
    const pid = await h.spawn("go");
    let handled = 0;
    const { signals } = h.kernel;
    signals.sigHandle(pid, SIGTERM, () => void handled++);
    signals.sigBlock(pid, SIGTERM);
    for (let i = 0; i < 3; i++) expect(signals.signal(pid, SIGTERM)).toBe("pending");
    expect(signals.sigUnblock(pid, SIGTERM)).toBe("handled");
    expect(signals.sigUnblock(pid, SIGTERM)).toBeUndefined();
    expect(handled).toBe(1);
  });

  test("has its default action when its handler is removed", async () => {
    await using h = new KernelHarness({ model: silent });
    const pid = await h.spawn("go");
    const { signals } = h.kernel;
    signals.sigHandle(pid, SIGTERM, () => {
      throw new Error("not called");
    });
    signals.sigHandle(pid, SIGTERM, null);
    expect(signals.signal(pid, SIGTERM)).toBe("default");
    expect(await h.kernel.processes.wait(pid)).toMatchObject({ code: 143, reason: "terminated" });
  });

  test("PAUSE and RESUME undo each other where they are pending", async () => {
    await using h = new KernelHarness({ model: silent });
    const pid = await h.spawn("go");
    const { signals } = h.kernel;
    signals.sigBlock(pid, SIGPAUSE);
    signals.signal(pid, SIGPAUSE);
    signals.signal(pid, SIGRESUME);
    expect(signals.sigUnblock(pid, SIGPAUSE)).toBeUndefined();
    expect(h.kernel.processes.info(pid).is_paused).toBe(false);
    signals.signal(pid, SIGPAUSE);
    signals.sigBlock(pid, SIGRESUME);
    signals.signal(pid, SIGRESUME);
    signals.signal(pid, SIGPAUSE);
    expect(signals.sigUnblock(pid, SIGRESUME)).toBeUndefined();
    expect(h.kernel.processes.info(pid).is_paused).toBe(true);
  });

  test("that is pending when its process ends is dropped", async () => {
    await using h = new KernelHarness({ model: () => says("done") });
    const pid = await h.spawn("go");
    h.kernel.signals.sigBlock(pid, SIGTERM);
    h.kernel.signals.signal(pid, SIGTERM);
    expect(h.kernel.signals.size).toBe(1);
    expect(await h.kernel.processes.wait(pid)).toMatchObject({ code: 0, reason: "completed" });
    expect(h.kernel.signals.size).toBe(0);
  });
});

describe("a handler", () => {
  test.each([
    [
      "throws",
      (): void => {
        throw new Error("broken");
      },
      /the handler of SIGTERM failed: Error: broken/,
    ],
    ["rejects", (): Promise<void> => Promise.reject(new Error("broken")), /SIGTERM failed: Error: broken/],
    [
      "never comes back",
      (): Promise<void> => new Promise(() => {}),
      /SIGTERM has not returned after 1000 ms/,
    ],
  ])("that %s is logged, and its process goes on and can be killed", async (_how, handler, warning) => {
    const clock = new FakeClock();
    await using h = new KernelHarness({ model: silent, clock });
    const pid = await h.spawn("go", { timeout_ms: null });
    h.kernel.signals.sigHandle(pid, SIGTERM, handler);
    expect(h.kernel.signals.signal(pid, SIGTERM)).toBe("handled");
    h.kernel.signals.signal(pid, SIGPAUSE);
    await clock.advance(1_000);
    expect(h.warnings.join()).toMatch(warning);
    expect(h.kernel.processes.info(pid).exit_reason).toBeNull();
    h.kernel.signals.signal(pid, SIGTERM);
    h.kernel.processes.kill(pid, SIGKILL);
    expect(await h.kernel.processes.wait(pid)).toMatchObject({ code: 137 });
    expect(clock.pending).toBe(0);
  });

  test("that returns in time is not logged", async () => {
    const clock = new FakeClock();
    await using h = new KernelHarness({ model: silent, clock });
    const pid = await h.spawn("go", { timeout_ms: null });
    await until(() => h.requests.length === 1, "the model call");
    const work = Promise.withResolvers<void>();
    h.kernel.signals.sigHandle(pid, SIGINT, () => work.promise);
    const before = clock.pending;
    h.kernel.signals.signal(pid, SIGINT);
    expect(clock.pending).toBe(before + 1);
    work.resolve();
    await settled();
    expect(clock.pending).toBe(before);
    await clock.advance(5_000);
    expect(h.warnings).toEqual([]);
  });

  test("may send signals itself, also its own without end", async () => {
    await using h = new KernelHarness({ model: silent });
    const pid = await h.spawn("go");
    h.kernel.signals.sigHandle(pid, SIGINT, () => void h.kernel.signals.signal(pid, SIGINT));
    h.kernel.signals.signal(pid, SIGINT);
    expect(h.warnings.join()).toContain("RangeError");
    h.kernel.signals.sigHandle(pid, SIGTERM, () => void h.kernel.signals.signal(pid, SIGKILL));
    expect(h.kernel.signals.signal(pid, SIGTERM)).toBe("handled");
    expect(await h.kernel.processes.wait(pid)).toMatchObject({ code: 137, reason: "killed" });
  });
});

describe("a tree", () => {
  test("that is paused spends nothing by its new children, to any depth", async () => {
    const below = Promise.withResolvers<void>();
    const model: Model = async () => {
      if (h.requests.length === 1) await below.promise;
      return says("done");
    };
    await using h = new KernelHarness({ model });
    const root = await h.spawn("root");
    await until(() => h.requests.length === 1, "the call of the root");
    h.kernel.signals.signal(root, SIGPAUSE);
    const child = await h.spawn("child", { parentPid: root });
    const leaf = await h.spawn("leaf", { parentPid: child });
    expect([root, child, leaf].map((pid) => isPaused(h, pid))).toEqual([true, true, true]);
    const { uuid } = h.kernel.processes.info(leaf);
    expect((await h.runs.info(uuid))?.is_paused).toBe(true);
    await settled();
    expect(h.requests).toHaveLength(1);
    h.kernel.signals.signal(leaf, SIGRESUME);
    expect((await h.follow(leaf)).info.exit_reason).toBe("completed");
    expect(h.kernel.signals.signalTree(root, SIGRESUME)).toBe(2);
    expect((await h.follow(child)).info.exit_reason).toBe("completed");
    below.resolve();
    expect((await h.follow(root)).info.exit_reason).toBe("completed");
  });

  test("is reached whole, and the answer is the number of processes", async () => {
    await using h = new KernelHarness({ model: silent });
    const root = await h.spawn("root");
    const left = await h.spawn("left", { parentPid: root });
    const leaf = await h.spawn("leaf", { parentPid: left });
    const right = await h.spawn("right", { parentPid: root });
    const other = await h.spawn("other");
    const paused = (): number[] => [root, left, leaf, right, other].filter((pid) => isPaused(h, pid));
    expect(h.kernel.signals.signalTree(left, SIGPAUSE)).toBe(2);
    expect(paused()).toEqual([left, leaf]);
    expect(h.kernel.signals.signalTree(root, SIGPAUSE)).toBe(4);
    expect(paused()).toEqual([root, left, leaf, right]);
    expect(h.kernel.signals.signalTree(root, SIGRESUME)).toBe(4);
    expect(h.kernel.signals.signalTree(root, SIGINT)).toBe(4);
    const exits = await Promise.all([root, left, leaf, right].map((pid) => h.kernel.processes.wait(pid)));
    expect(exits.map((exit) => exit.code)).toEqual([130, 130, 130, 130]);
    expect(codeNow(() => h.kernel.signals.signalTree(root, SIGTERM))).toBe("NOT_FOUND");
    expect(h.kernel.processes.info(other).exit_reason).toBeNull();
  });

  test("counts a process that blocks or handles the signal as reached", async () => {
    await using h = new KernelHarness({ model: silent });
    const root = await h.spawn("root");
    const child = await h.spawn("child", { parentPid: root });
    h.kernel.signals.sigBlock(root, SIGPAUSE);
    h.kernel.signals.sigHandle(child, SIGPAUSE, () => {});
    expect(h.kernel.signals.signalTree(root, SIGPAUSE)).toBe(2);
    expect([isPaused(h, root), isPaused(h, child)]).toEqual([false, false]);
  });
});

describe("Kill leaves the children to PID 0", () => {
  test("when the process ends of it, not when it is blocked or handled", async () => {
    await using h = new KernelHarness({ model: silent });
    const { signals } = h.kernel;
    const parent = await h.spawn("parent");
    const child = await h.spawn("child", { parentPid: parent });
    signals.sigBlock(parent, SIGTERM);
    h.kernel.processes.kill(parent, SIGTERM);
    signals.sigHandle(parent, SIGINT, () => {});
    h.kernel.processes.kill(parent, SIGINT);
    expect(h.kernel.processes.info(child).ppid).toBe(parent);
    signals.sigUnblock(parent, SIGTERM);
    expect(h.kernel.processes.info(child).ppid).toBe(0);
    expect(await h.kernel.processes.wait(parent)).toMatchObject({ code: 143 });
    expect(h.kernel.processes.info(child).exit_reason).toBeNull();
  });

  test("but a signal to the tree that is also pending ends them", async () => {
    await using h = new KernelHarness({ model: silent });
    const { signals } = h.kernel;
    const parent = await h.spawn("parent");
    const child = await h.spawn("child", { parentPid: parent });
    signals.sigBlock(parent, SIGTERM);
    h.kernel.processes.kill(parent, SIGTERM);
    signals.signal(parent, SIGTERM);
    h.kernel.processes.kill(parent, SIGTERM);
    const ended = h.kernel.processes.wait(child);
    signals.sigUnblock(parent, SIGTERM);
    expect(await ended).toMatchObject({ code: 143 });
  });
});

describe("every call is recorded", () => {
  test("by a process or PID 0, with the process, under its name", async () => {
    await using h = new KernelHarness({ model: silent });
    const pid = await h.spawn("go");
    const uuid = h.kernel.processes.info(pid).uuid;
    const { signals, processes } = h.kernel;
    signals.sigHandle(pid, SIGINT, () => {});
    signals.sigBlock(pid, SIGTERM);
    signals.signal(pid, SIGTERM);
    signals.signal(pid, SIGINT);
    expect(codeNow(() => signals.sigBlock(pid, SIGKILL))).toBe("INVALID");
    signals.sigUnblock(pid, SIGRESUME);
    processes.kill(pid, SIGKILL);
    await h.kernel.processes.wait(pid);
    const { records } = await h.runs.events(uuid);
    const names = ["Signal", "SigHandle", "SigBlock", "SigUnblock", "Kill"];
    const traced = records.filter((event) => names.includes(event.syscall));
    expect(
      traced.map(({ syscall, args, result, error_code }) => [syscall, args, result ?? error_code]),
    ).toEqual([
      ["SigHandle", { pid, signal: SIGINT, handler: true }, undefined],
      ["SigBlock", { pid, signal: SIGTERM }, undefined],
      ["Signal", { pid, signal: SIGTERM, by: 0 }, "pending"],
      ["Signal", { pid, signal: SIGINT, by: 0 }, "handled"],
      ["SigBlock", { pid, signal: SIGKILL }, "INVALID"],
      ["SigUnblock", { pid, signal: SIGRESUME }, undefined],
      ["Kill", { pid, signal: SIGKILL, by: 0 }, "default"],
    ]);
  });

  test("for no process, or for an ended one, are recorded with PID 0", async () => {
    await using h = new KernelHarness({ model: silent });
    const pid = await h.spawn("go");
    h.kernel.processes.listProcs();
    h.kernel.processes.kill(pid, SIGTERM);
    await h.kernel.processes.wait(pid);
    expect(codeNow(() => h.kernel.processes.kill(pid, SIGTERM))).toBe("NOT_FOUND");
    await expect(h.kernel.processes.wait(pid)).rejects.toMatchObject({ code: "NOT_FOUND", syscall: "Wait" });
    const ended = h.kernel.debug.ofPid0.map(({ pid, syscall, result, error_code }) => [
      pid,
      syscall,
      result ?? error_code,
    ]);
    const traced: unknown[] = [];
    const trace = h.kernel.attachDebug(0);
    h.kernel.processes.listProcs();
    trace.end();
    for await (const event of trace) traced.push(event);
    expect(traced).toEqual([...h.kernel.debug.ofPid0]);
    expect(ended).toEqual([
      [0, "ListProcs", 1],
      [0, "Wait", { code: 143, reason: "terminated" }],
      [0, "Kill", "NOT_FOUND"],
      [0, "Wait", "NOT_FOUND"],
    ]);
  });
});

function isPaused(h: KernelHarness, pid: number): boolean {
  return h.kernel.processes.info(pid).is_paused;
}

/** What a process should do with signals, as simply as can be. */
class Expected {
  readonly blocked = new Set<Signal>();
  readonly handled = new Set<Signal>();
  readonly pending = new Set<Signal>();
  handlerCalls = 0;
  paused = false;
  elapsedMs = 0;
  end: { code: number; reason: string } | undefined;

  take(signal: Signal): void {
    if (signal === SIGPAUSE) this.pending.delete(SIGRESUME);
    if (signal === SIGRESUME) this.pending.delete(SIGPAUSE);
    if (this.blocked.has(signal)) this.pending.add(signal);
    else if (this.handled.has(signal)) this.handlerCalls++;
    else if (signal === SIGPAUSE) this.paused = this.end === undefined;
    else if (signal === SIGRESUME) this.paused = false;
    else this.#die(signal);
  }

  unblock(signal: Signal): void {
    this.blocked.delete(signal);
    if (this.pending.delete(signal)) this.take(signal);
  }

  #die(signal: Signal): void {
    const own = OWN[signal];
    if (this.end || !own) return;
    this.end = this.paused ? { ...own, reason: "killed_while_paused" } : own;
    this.paused = false;
  }
}

describe("random blocks, handlers, signals and times", () => {
  const STEPS = 2_000;
  const often = (signal: Signal): Signal[] => Array<Signal>(8).fill(signal);
  const MANY: Signal[] = [SIGTERM, SIGINT, ...often(SIGPAUSE), ...often(SIGRESUME)];
  /** A disk that keeps nothing: what is looked at here is in memory. */
  const nowhere: FsPort = {
    open: () => 0,
    close: () => {},
    size: () => 0,
    write: (_fd, data) => data.length,
    writeAsync: async (_fd, data) => data.length,
    read: () => 0,
    readAsync: async () => 0,
    truncate: () => {},
    fdatasync: async () => {},
    fdatasyncNow: () => {},
    fsync: async () => {},
    mkdir: () => true,
    rename: () => {},
    link: () => {},
    swap: () => "unsupported",
    hasWriters: () => null,
    remove: () => {},
    list: async () => [],
    stat: () => null,
  };
  test.each(Array.from({ length: soak(10, 50) }, (_, seed) => [seed]))("seed %i", async (seed) => {
    const clock = new FakeClock();
    await using h = new KernelHarness({ model: silent, clock, fs: nowhere });
    const random = seeded(seed);
    const below = (n: number): number => Math.floor(random() * n);
    let lives = 0;
    for (let step = 0; step < STEPS; lives++) {
      const pid = await h.spawn("go", { timeout_ms: null });
      const waited = h.kernel.processes.wait(pid);
      const expected = new Expected();
      let handlerCalls = 0;
      const { signals } = h.kernel;
      const handler = (): void => void handlerCalls++;
      for (; step < STEPS; step++) {
        // What ends it is rare, or little else would be seen.
        const signal = MANY[below(MANY.length)] ?? SIGPAUSE;
        switch (below(9)) {
          case 0:
            signals.sigBlock(pid, signal);
            expected.blocked.add(signal);
            break;
          case 1:
            signals.sigUnblock(pid, signal);
            expected.unblock(signal);
            break;
          case 2:
            signals.sigHandle(pid, signal, handler);
            expected.handled.add(signal);
            break;
          case 3:
            signals.sigHandle(pid, signal, null);
            expected.handled.delete(signal);
            break;
          case 4: {
            const sent = below(20) === 0 ? SIGKILL : signal;
            h.kernel.processes.kill(pid, sent);
            expected.take(sent);
            break;
          }
          case 5: {
            const ms = below(1_000);
            await clock.advance(ms);
            if (!expected.end && !expected.paused) expected.elapsedMs += ms;
            break;
          }
          default:
            signals.signal(pid, signal);
            expected.take(signal);
        }
        expect(handlerCalls).toBe(expected.handlerCalls);
        if (expected.end) break;
        const { is_paused, elapsed_ms, exit_reason } = h.kernel.processes.info(pid);
        expect([is_paused, elapsed_ms, exit_reason]).toEqual([expected.paused, expected.elapsedMs, null]);
      }
      if (!expected.end) expect(h.kernel.signals.signal(pid, SIGKILL)).toBe("default");
      expect(await waited).toMatchObject(
        expected.end ?? { code: 137, reason: expected.paused ? "killed_while_paused" : "killed" },
      );
    }
    await until(() => h.kernel.processes.count === 0);
    expect(lives).toBeGreaterThan(1);
    expect([h.kernel.signals.size, clock.pending]).toEqual([0, 0]);
    expect(h.warnings).toEqual([]);
  });
});
