import { describe, expect, test } from "bun:test";
import type { ProcInfo, Wake } from "../../../src/kernel/types.ts";
import { loggerTo } from "../../../src/lib/logger.ts";
import { SyscallError } from "../../../src/plugin/index.ts";
import type { InMemorySettings } from "../../../src/server/recovery/auto-resume.ts";
import { Waker } from "../../../src/server/recovery/waker.ts";
import { FakeClock, settled } from "../../support/fake-clock.ts";
import { procInfo } from "../../support/samples.ts";

const HOUR = 3_600_000;

/** Records on a fake disk, and a waker over them whose resume the test scripts. */
class Bench {
  readonly clock = new FakeClock();
  readonly disk = new Map<string, ProcInfo>();
  readonly mail = new Set<string>();
  /** Runs whose units go on. */
  readonly parked = new Set<string>();
  readonly resumed: [uuid: string, why: string, kept?: InMemorySettings][] = [];
  readonly logged: string[] = [];
  refusal: SyscallError | undefined;
  /** Until then a resume is under way. */
  planned: Promise<void> = Promise.resolve();
  /** What happens when a run begins. */
  onResume: (uuid: string) => void = (uuid) => this.begin(uuid);
  readonly waker = new Waker({
    clock: this.clock,
    sleepers: async () =>
      [...this.disk.values()].flatMap(({ uuid, suspended }) =>
        suspended?.by_itself ? [{ uuid, wake: suspended.wake }] : [],
      ),
    info: async (uuid) => this.disk.get(uuid),
    hasMail: async (uuid) => this.mail.has(uuid),
    isParked: (uuid) => this.parked.has(uuid),
    resume: async (uuid, why, kept) => {
      await this.planned;
      if (this.refusal) throw this.refusal;
      this.resumed.push(kept ? [uuid, why, kept] : [uuid, why]);
      this.onResume(uuid);
    },
    leave: async (uuid, reason) => {
      const info = this.disk.get(uuid);
      if (info)
        this.disk.set(uuid, { ...info, suspended: { reason, cause: "asked", wake: { on: "never" } } });
    },
    logger: loggerTo((_level, source, text) => this.logged.push(`${source}: ${text}`)),
  });

  /** As the kernel does when a run is suspended. */
  suspend(uuid: string, wake: Wake): void {
    this.lay(uuid, wake);
    this.waker.suspended({ uuid, wake });
  }

  /** By an earlier daemon. */
  lay(uuid: string, wake: Wake): void {
    this.disk.set(uuid, record(uuid, wake));
  }

  begin(uuid: string): void {
    this.disk.set(uuid, {
      ...record(uuid, { on: "never" }),
      state: "running",
      ended_at_ms: null,
      suspended: null,
    });
    this.waker.began(uuid);
  }

  end(uuid: string): void {
    this.disk.set(uuid, { ...record(uuid, { on: "never" }), state: "dead", exit_code: 0, suspended: null });
    this.waker.ended(uuid);
  }

  get uuids(): string[] {
    return this.resumed.map(([uuid]) => uuid);
  }

  in(ms: number): Wake {
    return { on: "at", at_ms: this.clock.now() + ms };
  }
}

function record(uuid: string, wake: Wake): ProcInfo {
  return {
    ...procInfo(),
    uuid,
    state: "suspended",
    exit_code: 75,
    exit_reason: "suspended",
    ended_at_ms: 1,
    suspended: { reason: "test", cause: "asked", wake, ...(wake.on !== "never" && { by_itself: true }) },
  };
}

describe("at a time", () => {
  test("a run is resumed, not earlier, and the daemon keeps running until then", async () => {
    const bench = new Bench();
    bench.suspend("a", bench.in(HOUR));
    bench.suspend("b", bench.in(2 * HOUR));
    expect(bench.waker.busy).toBe(true);
    await bench.clock.advance(HOUR - 1);
    expect(bench.uuids).toEqual([]);
    await bench.clock.advance(1);
    expect(bench.uuids).toEqual(["a"]);
    await bench.clock.advance(HOUR);
    expect(bench.uuids).toEqual(["a", "b"]);
    expect(bench.waker.busy).toBe(false);
    expect(bench.clock.pending).toBe(0);
  });

  test("the daemon keeps running while a run is being resumed and has no process yet", async () => {
    const bench = new Bench();
    const planned = Promise.withResolvers<void>();
    bench.planned = planned.promise;
    bench.suspend("a", bench.in(HOUR));
    await bench.clock.advance(HOUR);
    expect(bench.uuids).toEqual([]);
    expect(bench.waker.busy).toBe(true);
    planned.resolve();
    await settled();
    expect(bench.uuids).toEqual(["a"]);
    expect(bench.waker.busy).toBe(false);
  });

  test("runs of an earlier daemon are resumed, overdue ones at once; those that a user suspended are not", async () => {
    const bench = new Bench();
    bench.lay("due", bench.in(-HOUR));
    bench.lay("later", bench.in(HOUR));
    bench.lay("never", { on: "never" });
    await bench.waker.start();
    await bench.clock.advance(0);
    expect(bench.uuids).toEqual(["due"]);
    await bench.clock.advance(HOUR);
    expect(bench.uuids).toEqual(["due", "later"]);
  });

  test("a wait longer than the largest timer does not end at once", async () => {
    const bench = new Bench();
    bench.suspend("a", bench.in(400 * 24 * HOUR));
    expect(bench.clock.waits).toEqual([60_000]);
    await bench.waker.close();
    expect(bench.clock.pending).toBe(0);
  });

  test("hundreds of runs are resumed, each once", async () => {
    const bench = new Bench();
    const all = Array.from({ length: 300 }, (_, i) => `r${i}`);
    for (const uuid of all) bench.suspend(uuid, bench.in(HOUR));
    await bench.clock.advance(HOUR);
    expect(bench.uuids.sort()).toEqual(all.sort());
  });
});

describe("a run that another caller has resumed", () => {
  test("is not resumed again", async () => {
    const bench = new Bench();
    bench.suspend("here", bench.in(HOUR));
    bench.suspend("elsewhere", bench.in(HOUR));
    bench.suspend("changed", bench.in(HOUR));
    bench.begin("here");
    bench.disk.set("elsewhere", { ...record("elsewhere", { on: "never" }), state: "dead", suspended: null });
    bench.lay("changed", bench.in(5 * HOUR));
    await bench.clock.advance(HOUR);
    expect(bench.uuids).toEqual([]);
    expect(bench.logged).toEqual([]);
  });

  test("at the same moment belongs to that caller, and its record is not changed", async () => {
    const bench = new Bench();
    bench.suspend("a", bench.in(HOUR));
    const theirs: ProcInfo = { ...record("a", { on: "never" }), state: "running", suspended: null };
    bench.onResume = () => {
      bench.disk.set("a", theirs);
      throw new SyscallError("INVALID", "being resumed by another");
    };
    await bench.clock.advance(HOUR);
    expect(bench.uuids).toEqual(["a"]);
    expect(bench.disk.get("a")).toEqual(theirs);
    expect(bench.logged).toEqual([]);
  });
});

describe("a run that can't be resumed automatically", () => {
  test("stays suspended, and its record says why", async () => {
    const bench = new Bench();
    bench.suspend("a", bench.in(HOUR));
    bench.refusal = new SyscallError("UNAVAILABLE", "no key");
    await bench.clock.advance(HOUR);
    expect(bench.disk.get("a")?.suspended).toEqual({
      reason: "it could not be resumed by itself although its time has come: no key",
      cause: "asked",
      wake: { on: "never" },
    });
    expect(bench.clock.pending).toBe(0);
  });

  test("is left to the next daemon when this one is stopped meanwhile", async () => {
    const bench = new Bench();
    bench.suspend("a", bench.in(HOUR));
    const before = bench.disk.get("a");
    bench.refusal = new SyscallError("UNAVAILABLE", "The kernel is shutting down");
    const advancing = bench.clock.advance(HOUR);
    const closing = bench.waker.close();
    await Promise.all([advancing, closing]);
    expect(bench.disk.get("a")).toEqual(before);
  });
});

describe("a child's end", () => {
  test("resumes its waiting parent", async () => {
    const bench = new Bench();
    bench.suspend("parent", { on: "child", uuid: "child" });
    bench.end("another");
    await settled();
    expect(bench.uuids).toEqual([]);
    bench.end("child");
    await settled();
    expect(bench.uuids).toEqual(["parent"]);
    expect(bench.waker.busy).toBe(false);
  });

  test("is found too when it came before the wait was known", async () => {
    const bench = new Bench();
    bench.end("child");
    bench.lay("parent", { on: "child", uuid: "child" });
    await bench.waker.start();
    await settled();
    expect(bench.uuids).toEqual(["parent"]);
  });

  test("resumes the topmost waiting run, which resumes the runs below it", async () => {
    const bench = new Bench();
    bench.suspend("leaf", bench.in(HOUR));
    bench.suspend("child", { on: "child", uuid: "leaf" });
    bench.suspend("root", { on: "child", uuid: "child" });
    await bench.clock.advance(HOUR);
    expect(bench.uuids).toEqual(["root"]);
    bench.begin("child");
    bench.begin("leaf");
    expect(bench.waker.waiting).toEqual([]);
    expect(bench.clock.pending).toBe(0);
  });

  test("resumes one run of a waiting cycle, which only damaged records have", async () => {
    const bench = new Bench();
    bench.suspend("a", { on: "child", uuid: "b" });
    bench.suspend("b", { on: "child", uuid: "a" });
    bench.suspend("c", { on: "child", uuid: "c" });
    bench.waker.ended("b");
    bench.waker.ended("c");
    await settled();
    expect(bench.uuids).toEqual(["b", "c"]);
  });

  test("is not waited for when the parent has ended", async () => {
    const bench = new Bench();
    bench.suspend("leaf", bench.in(HOUR));
    bench.suspend("root", { on: "child", uuid: "leaf" });
    await bench.clock.advance(HOUR);
    bench.end("root");
    await settled();
    expect(bench.uuids).toEqual(["root"]);
    expect(bench.waker.waiting).toEqual([]);
    expect(bench.disk.get("leaf")?.suspended?.wake).toEqual({ on: "never" });
  });
});

describe("a message", () => {
  test("resumes only the run that waits for it", async () => {
    const bench = new Bench();
    bench.suspend("a", { on: "message" });
    bench.suspend("b", { on: "message" });
    bench.suspend("c", bench.in(HOUR));
    for (const uuid of ["a", "c", "unknown"]) bench.waker.mailed(uuid);
    await settled();
    expect(bench.uuids).toEqual(["a"]);
    await bench.waker.close();
  });

  test("that arrived before the daemon's start is found", async () => {
    const bench = new Bench();
    bench.lay("a", { on: "message" });
    bench.mail.add("a");
    await bench.waker.start();
    await settled();
    expect(bench.uuids).toEqual(["a"]);
  });
});

test("a closed waker hands its waits to the next one, and resumes no run", async () => {
  const bench = new Bench();
  const kept: InMemorySettings = { env: { A: "1" }, provider: null };
  const wake = bench.in(HOUR);
  bench.lay("a", wake);
  bench.waker.suspended({ uuid: "a", wake, inMemory: kept });
  await bench.clock.advance(HOUR);
  expect(bench.resumed).toEqual([["a", "its time has come", kept]]);
  await bench.waker.close();
  bench.suspend("b", bench.in(0));
  await bench.clock.advance(HOUR);
  expect(bench.uuids).toEqual(["a"]);
});

describe("a run that waits for an answer", () => {
  const ask = { id: "a1", kind: "permission", step: 1, call_id: "c", asked_at_ms: 0, until_ms: 0 } as const;
  const open = { ...ask, call: null, questions: [] };

  test("is resumed when its question's time is over, and keeps no daemon alive until then", async () => {
    const bench = new Bench();
    const wake = { on: "answer", id: "a1", until_ms: bench.clock.now() + HOUR } as const;
    bench.suspend("u", wake);
    await settled();
    expect(bench.waker.busy).toBe(false);
    await bench.clock.advance(HOUR - 1);
    expect(bench.resumed).toEqual([]);
    await bench.clock.advance(1);
    expect(bench.resumed).toEqual([["u", "no answer has come in time"]]);
    await bench.waker.close();
  });

  test("is resumed at a start if it was answered while no daemon ran", async () => {
    const bench = new Bench();
    const wake = { on: "answer", id: "a1" } as const;
    for (const [uuid, answers] of [
      ["answered", [{ choices: ["yes"] }]],
      ["open", undefined],
    ] as const) {
      bench.lay(uuid, wake);
      const info = bench.disk.get(uuid);
      const asks = [
        { ...open, ...(answers && { answers: answers.map((one) => ({ choices: [...one.choices] })) }) },
      ];
      if (info?.suspended)
        bench.disk.set(uuid, { ...info, asks, suspended: { ...info.suspended, by_itself: true } });
    }
    await bench.waker.start();
    await settled();
    expect(bench.resumed).toEqual([["answered", "it was answered"]]);
    await bench.waker.close();
  });
});
