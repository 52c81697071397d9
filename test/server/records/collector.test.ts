import { describe, expect, setDefaultTimeout, test } from "bun:test";
import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, utimesSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { loggerTo } from "../../../src/lib/logger.ts";
import type { CollectReport } from "../../../src/protocol/methods.ts";
import { Collector, GcSchedule } from "../../../src/server/records/collector.ts";
import { FileLock } from "../../../src/store/files/file-lock.ts";
import { type FsPort, realFs } from "../../../src/store/files/fs-port.ts";
import type { RetentionLimits } from "../../../src/store/runs/retention.ts";
import { RunStore } from "../../../src/store/runs/run-store.ts";
import type { ProcInfo } from "../../../src/store/runs/schema.ts";
import { FakeClock } from "../../support/fake-clock.ts";
import { procInfo } from "../../support/samples.ts";
import { writeRecord } from "../../support/sealed-record.ts";
import { seeded } from "../../support/seeded.ts";
import { until } from "../../support/until.ts";

setDefaultTimeout(120_000);

const ALL: RetentionLimits = { retention_age: null, retention_runs: 0, retention_size: null };

/** Two projects' data folders, a kernel that lives, and a collector over both. */
class Folders implements Disposable {
  readonly root = mkdtempSync(join(tmpdir(), "rnix-collector-"));
  readonly clock = new FakeClock();
  readonly alive = new Set(["alive"]);
  limits: RetentionLimits = ALL;
  fs: FsPort = realFs;
  #count = 0;

  readonly stores = ["a", "b"].map((name) => new RunStore(join(this.root, name), this.#port()));

  readonly collector = new Collector({
    dataDirs: () => this.stores.map(({ dataDir }) => dataDir),
    open: (dir) => this.store(dir),
    kernelAlive: (id) => this.alive.has(id),
    limits: async () => this.limits,
    lockPath: join(this.root, "gc", "lock"),
    lastPath: join(this.root, "gc", "last.json"),
    clock: this.clock,
  });

  store(dir: string): RunStore {
    const store = this.stores.find(({ dataDir }) => dataDir === dir);
    if (!store) throw new Error(`no store for ${dir}`);
    return store;
  }

  /** A run that ended at the given age; `more` overrides its fields. */
  run(more: Partial<ProcInfo> = {}, of = 0): string {
    const n = ++this.#count;
    const uuid = `019a0000-0000-7000-8000-${n.toString(16).padStart(12, "0")}`;
    const info = {
      uuid,
      pid: n,
      state: "dead",
      ended_at_ms: n,
      exit_code: 0,
      kernel: "dead",
      ...more,
    } as const;
    this.stores[of]?.create(uuid).info(procInfo(info));
    return uuid;
  }

  /** What is left, by UUID. */
  left(): string[] {
    return this.stores.flatMap(({ dataDir }) => {
      const steps = join(dataDir, "steps");
      return existsSync(steps) ? readdirSync(steps) : [];
    });
  }

  [Symbol.dispose](): void {
    rmSync(this.root, { recursive: true, force: true });
  }

  /** The one that is set, also after the stores were made. */
  #port(): FsPort {
    return { ...realFs, rename: (from, to) => this.fs.rename(from, to) };
  }
}

function gone({ collected }: CollectReport): string[] {
  return collected.map(({ uuid }) => uuid);
}

describe("gc", () => {
  test("removes runs beyond the limits in every project, and records them as removed", async () => {
    using folders = new Folders();
    folders.limits = { ...ALL, retention_runs: 1 };
    const [a, b, c] = [folders.run(), folders.run(), folders.run({}, 1)];
    const dry = await folders.collector.collect({ dryRun: true });
    expect(folders.left()).toHaveLength(3);
    const report = await folders.collector.collect();
    expect(report).toEqual({ ...dry, dry_run: false });
    expect(report).toMatchObject({ runs: 1, kept: 2, needed: 0, left: 0, problems: [] });
    expect(report.collected).toMatchObject([{ uuid: a, pid: 1, why: "runs", bytes: 4096, ended_at_ms: 1 }]);
    expect(folders.left()).toEqual([b, c]);
    const collected = await folders.stores[0]?.collected();
    expect(await collected?.find(({ pid }) => pid === 1)).toMatchObject({ uuid: a, why: "runs" });
    expect(await collected?.find(({ uuid }) => uuid === b)).toBeUndefined();
    expect(readdirSync(join(folders.root, "a", "gc")).sort()).toEqual(["collected.jsonl"]);
    expect(readdirSync(join(folders.root, "gc"))).toEqual(["last.json"]);
  });

  test("never removes a live, suspended or crashed run, or one that such a run needs", async () => {
    using folders = new Folders();
    const parent = folders.run({}, 1);
    const stay = [
      folders.run({ state: "running", ended_at_ms: null, kernel: "alive" }),
      folders.run({ state: "suspended", exit_code: 75, exit_reason: "suspended", parent_uuid: parent }),
      folders.run({ state: "running", ended_at_ms: null }),
      folders.run({ state: "running", ended_at_ms: null, kernel: "alive", kind: "supervisor" }),
      parent,
    ];
    const go = [folders.run({ state: "running", ended_at_ms: null, kind: "supervisor" }), folders.run()];
    const report = await folders.collector.collect();
    expect(gone(report).sort()).toEqual(go);
    expect(folders.left().sort()).toEqual(stay.sort());
    expect(report).toMatchObject({ kept: 5, needed: 5 });
  });

  test("counts a chat that waits for its user as ended, but no other suspended run", async () => {
    using folders = new Folders();
    const waiting = (on: "message" | "never") =>
      ({ state: "suspended", suspended: { reason: "left", cause: "asked", wake: { on } } }) as const;
    const left = folders.run({ ...waiting("message"), chat: true });
    const stay = [folders.run({ ...waiting("never"), chat: true }), folders.run(waiting("message"))];
    expect(gone(await folders.collector.collect())).toEqual([left]);
    expect(folders.left().sort()).toEqual(stay.sort());
  });

  test("does not remove a run that is being resumed, or was resumed since it was listed", async () => {
    using folders = new Folders();
    const [claimed, resumed, free] = [folders.run(), folders.run(), folders.run()];
    const store = folders.stores[0];
    const claim = store?.claim(claimed);
    folders.fs = {
      ...realFs,
      rename: (from, to) => {
        // As the first one goes, another kernel resumes the second.
        if (to.includes("/going/")) {
          writeRecord(store?.dataDir ?? "", procInfo({ uuid: resumed, pid: 99, kernel: "alive" }));
        }
        realFs.rename(from, to);
      },
    };
    folders.clock.advance(1);
    // The newest goes first in this order of ends.
    const record = procInfo({ uuid: free, pid: 3, state: "dead", ended_at_ms: 0, kernel: "dead" });
    writeRecord(store?.dataDir ?? "", record);
    const report = await folders.collector.collect();
    expect(gone(report)).toEqual([free]);
    expect(folders.left()).toEqual([claimed, resumed]);
    claim?.release({ remove: true });
  });

  test("names unreadable runs without removing them; removes a folder without a record after a day", async () => {
    using folders = new Folders();
    const [damaged, empty] = [folders.run(), folders.run()];
    const dir = (uuid: string): string => folders.stores[0]?.dir(uuid) ?? "";
    writeFileSync(join(dir(damaged), "proc-info.json"), "damaged");
    rmSync(join(dir(empty), "proc-info.json"));
    const now = folders.clock.now() / 1000;
    utimesSync(dir(empty), now, now);
    expect(await folders.collector.collect()).toMatchObject({ runs: 0 });
    utimesSync(dir(empty), now - 100_000, now - 100_000);
    const report = await folders.collector.collect();
    expect(report.collected).toMatchObject([{ uuid: empty, why: "empty", pid: null }]);
    expect(report.problems.map(({ path }) => path)).toContain(dir(damaged));
    expect(folders.left()).toEqual([damaged]);
  });

  test("runs once at a time, and completes a crashed collection", async () => {
    using folders = new Folders();
    const lock = FileLock.tryAcquire(join(folders.root, "gc", "lock"));
    expect(folders.collector.collect()).rejects.toMatchObject({ code: "UNAVAILABLE" });
    expect(await folders.collector.collect({ dryRun: true })).toMatchObject({ runs: 0 });
    lock?.release({ remove: true });
    const going = join(folders.root, "a", "gc", "going", "019a0000-0000-7000-8000-0000000000ff");
    mkdirSync(going, { recursive: true });
    writeFileSync(join(going, "steps.jsonl"), "x");
    await folders.collector.collect();
    expect(existsSync(going)).toBeFalse();
  });

  test("that fails for one run removes the others and names it", async () => {
    using folders = new Folders();
    const [a, b] = [folders.run(), folders.run()];
    folders.fs = {
      ...realFs,
      rename: (from, to) => {
        if (to.includes(`/going/${a}`)) throw Object.assign(new Error("io"), { code: "EIO" });
        realFs.rename(from, to);
      },
    };
    const report = await folders.collector.collect();
    expect(gone(report)).toEqual([b]);
    expect(report.problems).toMatchObject([{ message: expect.stringContaining(`collect run ${a}`) }]);
    expect(folders.left()).toEqual([a]);
  });

  test("holds its rules for random runs and limits", async () => {
    for (let seed = 1; seed <= 25; seed++) {
      using folders = new Folders();
      const random = seeded(seed);
      const int = (below: number): number => Math.floor(random() * below);
      const uuids: string[] = [];
      const open = new Set<string>();
      for (let n = 3 + int(20); n > 0; n--) {
        const link = int(3) === 0 && uuids.length > 0 ? (uuids[int(uuids.length)] ?? null) : null;
        const links = int(2) === 0 ? { parent_uuid: link } : { origin_uuid: link };
        const what = int(6);
        const state =
          what === 0
            ? ({ state: "suspended" } as const)
            : what === 1
              ? ({ state: "running", ended_at_ms: null, kernel: int(2) === 0 ? "alive" : "dead" } as const)
              : {};
        const uuid = folders.run({ ...links, ...state }, int(2));
        uuids.push(uuid);
        if (what < 2) open.add(uuid);
      }
      const infos = (await Promise.all(folders.stores.map((store) => store.list()))).flat();
      folders.limits = {
        retention_age: null,
        retention_runs: int(4),
        retention_size: int(2) === 0 ? null : 4096 * int(6),
      };
      const report = await folders.collector.collect({ most: 1 + int(30) });
      const left = new Set(folders.left());
      for (const uuid of open) expect(left, `seed ${seed}`).toContain(uuid);
      for (const { uuid, parent_uuid, origin_uuid } of infos) {
        if (!open.has(uuid)) continue;
        for (const above of [parent_uuid, origin_uuid]) if (above !== null) expect(left).toContain(above);
      }
      expect(left.size + report.runs).toBe(uuids.length);
      expect(report.kept).toBe(left.size);
    }
  });
});

describe("the daemon's own collection", () => {
  function auto(folders: Folders, everyMs: number | null = 3_600_000) {
    const logged: string[] = [];
    const made: number[] = [];
    const collector = {
      collect: async (o?: { most?: number }) => {
        made.push(folders.clock.now());
        return folders.collector.collect(o);
      },
    };
    const { clock } = folders;
    const lastPath = join(folders.root, "gc", "last.json");
    const job = new GcSchedule({
      collector,
      lastPath,
      everyMs,
      clock,
      logger: loggerTo((_level, _source, text) => logged.push(text)),
    });
    return { job, logged, made };
  }

  test("runs some time after the start, then at its interval, counted from the last one of any kernel", async () => {
    using folders = new Folders();
    folders.run();
    const { job, made, logged } = auto(folders);
    await folders.clock.advance(19_999);
    expect(made).toHaveLength(0);
    await folders.clock.advance(1);
    await until(() => logged.length === 1 && folders.clock.pending === 1);
    expect(logged).toEqual(["collected 1 old runs, 4096 bytes"]);
    await folders.clock.advance(3_599_999);
    expect(made).toHaveLength(1);
    await folders.clock.advance(1);
    await until(() => made.length === 2 && folders.clock.pending === 1);
    await job.close();
    expect(folders.clock.pending).toBe(0);

    const next = auto(folders);
    await folders.clock.advance(3_000_000);
    expect(next.made).toHaveLength(0);
    await next.job.close();
  });

  test("never runs when it is switched off", async () => {
    using folders = new Folders();
    const { job, made } = auto(folders, null);
    await folders.clock.advance(10_000_000);
    expect(made).toHaveLength(0);
    await job.close();
  });
});
