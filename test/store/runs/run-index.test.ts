import { afterAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import {
  appendFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { basename, dirname, join } from "node:path";
import { indexNameOf } from "../../../src/store/files/data-dir.ts";
import { type FsPort, realFs } from "../../../src/store/files/fs-port.ts";
import { ChangedRuns } from "../../../src/store/runs/changed-runs.ts";
import { RecordKey } from "../../../src/store/runs/record-key.ts";
import { sealedInfo } from "../../../src/store/runs/run-files.ts";
import type { PageQuery, RunLists } from "../../../src/store/runs/run-lists.ts";
import { rowOf } from "../../../src/store/runs/run-row.ts";
import { RunStore } from "../../../src/store/runs/run-store.ts";
import type { ProcInfo } from "../../../src/store/runs/schema.ts";
import { memoryFolder } from "../../support/memory-folder.ts";
import { procInfo } from "../../support/samples.ts";
import { seeded } from "../../support/seeded.ts";
import { soak } from "../../support/soak.ts";
import { fsWith, openFiles, temporaryFolder } from "../support.ts";

setDefaultTimeout(120_000);

function uuidOf(n: number): string {
  return `019a0000-0000-7000-8000-${n.toString(16).padStart(12, "0")}`;
}

function ended(n: number, more: Partial<ProcInfo> = {}): ProcInfo {
  return procInfo({ uuid: uuidOf(n), pid: n, state: "dead", ended_at_ms: n, exit_code: 0, ...more });
}

const key = RecordKey.open(join(mkdtempSync(join(memoryFolder, "rnix-key-")), "record.key"));
const indexFolder = key.indexFolder ?? "";
afterAll(() => rmSync(dirname(indexFolder), { recursive: true }));

function storeOf(dir: string, fs?: FsPort): RunStore {
  return new RunStore(dir, fs, key);
}

/** The files of its index. */
function indexFiles(dir: string): string[] {
  const names = existsSync(indexFolder) ? readdirSync(indexFolder) : [];
  return names.filter((name) => name.startsWith(indexNameOf(dir))).map((name) => join(indexFolder, name));
}

function indexFile(dir: string): string {
  return indexFiles(dir).find((path) => path.endsWith(".db")) ?? "none";
}

/** Counts the records of runs that are read. */
function counting(): { fs: FsPort; reads: () => number } {
  let reads = 0;
  const fs = fsWith({
    open: (path, mode) => {
      if (mode === "read" && basename(path) === "proc-info.json") reads++;
      return realFs.open(path, mode);
    },
  });
  return {
    fs,
    reads: () => {
      const all = reads;
      reads = 0;
      return all;
    },
  };
}

describe("a listing", () => {
  test("reads each record once, also for other kernels", async () => {
    const dir = temporaryFolder(memoryFolder);
    const { fs, reads } = counting();
    const store = storeOf(dir, fs);
    for (let n = 1; n <= 250; n++) store.create(uuidOf(n)).info(ended(n));
    store.create(uuidOf(251)).info(procInfo({ uuid: uuidOf(251), pid: 251 }));
    expect((await store.list()).map(({ pid }) => pid)).toEqual(Array.from({ length: 251 }, (_, i) => i + 1));
    expect(reads()).toBe(251);
    const again = await store.list();
    expect(again[9]).toEqual(ended(10));
    const other = storeOf(dir, fs);
    expect(await other.list()).toEqual(again);
    expect(reads()).toBe(0);
    expect(openFiles(dir)).toBe(0);
  });

  test("takes a long record from its own file", async () => {
    const { fs, reads } = counting();
    const dir = temporaryFolder(memoryFolder);
    const long = ended(1, { result: "x".repeat(100_000) });
    const store = storeOf(dir, fs);
    store.create(uuidOf(1)).info(long);
    expect(await store.list()).toEqual([long]);
    expect(await storeOf(dir, fs).list()).toEqual([long]);
    expect(reads()).toBeGreaterThan(2);
    expect(statSync(indexFile(dir)).size).toBeLessThan(100_000);
  });

  test("that begins while another is under way sees what came before it", async () => {
    const store = storeOf(temporaryFolder(memoryFolder));
    for (let n = 1; n <= 20; n++) store.create(uuidOf(n)).info(ended(n));
    const first = store.list();
    await Promise.resolve();
    store.create(uuidOf(21)).info(ended(21));
    const [, second, third] = await Promise.all([first, store.list(), store.list()]);
    expect(second).toHaveLength(21);
    expect(third).toHaveLength(21);
  });

  test("needs no index: a process that can't write one reads the records", async () => {
    const folder = temporaryFolder(memoryFolder);
    const store = new RunStore(join(folder, "data"), undefined, RecordKey.open(join(folder, "record.key")));
    store.create(uuidOf(1)).info(ended(1));
    writeFileSync(join(folder, "index"), "in the way");
    for (const _ of ["from the records", "from memory"]) {
      expect(await store.list()).toEqual([ended(1)]);
      expect((await (await store.index()).page({})).rows).toHaveLength(1);
    }
    store.create(uuidOf(2)).info(ended(2));
    expect(await store.list()).toHaveLength(2);
  });

  test("bounds the file's size while runs are added and removed", async () => {
    const dir = temporaryFolder(memoryFolder);
    const store = storeOf(dir);
    let largest = 0;
    for (let round = 0; round < 7; round++) {
      for (let n = 0; n < 300; n++) store.create(uuidOf(round * 300 + n)).info(ended(round * 300 + n));
      expect(await store.list()).toHaveLength(300);
      largest = Math.max(largest, statSync(indexFile(dir)).size);
      for (const info of await store.list()) rmSync(store.dir(info.uuid), { recursive: true });
    }
    expect(largest).toBeLessThan(2_500 * 3_000);
  });

  test("makes no folder where no run was recorded, and sees the first run", async () => {
    const dir = join(temporaryFolder(memoryFolder), "data");
    const store = storeOf(dir);
    expect(await store.list()).toEqual([]);
    expect((await (await store.index()).page({})).total).toBe(0);
    expect(existsSync(dir)).toBeFalse();
    expect(indexFiles(dir)).toEqual([]);
    store.create(uuidOf(1)).info(ended(1));
    expect((await (await store.index()).page({})).total).toBe(1);
  });
});

describe("a page", () => {
  const made = async (): Promise<RunLists> => {
    const dir = temporaryFolder(memoryFolder);
    const store = storeOf(dir);
    const write = (n: number, more: Partial<ProcInfo>): void =>
      store.create(uuidOf(n)).info(ended(n, { created_at_ms: n * 10, exit_reason: "completed", ...more }));
    write(1, { agent: "coder", project: "/a" });
    write(2, { agent: "coder", project: "/b", exit_code: 1, exit_reason: "check_failed" });
    write(3, { agent: "writer", project: "/a", parent_uuid: uuidOf(1) });
    write(4, { agent: "writer", project: "/a", state: "suspended", exit_code: null, exit_reason: null });
    write(5, { agent: "coder", project: "/a", earlier_pids: [105, 106] });
    write(6, { ended_at_ms: null, state: "running", project: "/b", exit_code: null, exit_reason: null });
    return store.index();
  };
  const cases: [what: string, query: PageQuery, pids: number[], total: number][] = [
    ["all closed runs", {}, [1, 2, 3, 4, 5], 5],
    ["a project's", { project: "/a" }, [1, 3, 4, 5], 4],
    ["an agent's", { agent: "coder" }, [1, 2, 5], 3],
    ["an agent's of a project", { agent: "coder", project: "/a" }, [1, 5], 2],
    ["failed ones", { status: "failed" }, [2], 1],
    ["done ones", { status: "done", project: "/a" }, [1, 3, 5], 3],
    ["suspended ones", { status: "suspended" }, [4], 1],
    ["of a verdict", { verdict: "check_failed" }, [2], 1],
    ["since a time", { since_ms: 30 }, [3, 4, 5], 3],
    ["until a time", { until_ms: 30 }, [1, 2], 2],
    ["the children of a run", { parent: uuidOf(1) }, [3], 1],
    ["by PID", { pid: 5 }, [5], 1],
    ["by an earlier PID", { pid: 106 }, [5], 1],
    ["the first ones", { limit: 2 }, [1, 2], 5],
    ["the next ones", { after: 2, limit: 2 }, [3, 4], 5],
    ["the newest ones", { newest: true, limit: 2 }, [4, 5], 5],
    ["after a UUID", { after: uuidOf(3) }, [4, 5], 5],
    ["without some", { except: [uuidOf(2), uuidOf(3)] }, [1, 4, 5], 3],
    ["nothing of another project", { project: "/c" }, [], 0],
  ];
  test("has what its filter takes, and its total", async () => {
    const index = await made();
    for (const [what, query, pids, total] of cases) {
      const page = await index.page(query);
      expect(
        page.rows.map(({ pid }) => pid),
        what,
      ).toEqual(pids);
      expect(page.total, what).toBe(total);
      expect(
        page.open.map(({ pid }) => pid),
        what,
      ).toEqual([6]);
    }
  });

  test("takes no time for what has not changed: no record is read, and no other one is looked at", async () => {
    const dir = temporaryFolder(memoryFolder);
    let looks = 0;
    const { fs, reads } = counting();
    const stat: FsPort["stat"] = (path) => {
      if (basename(path) === "proc-info.json") looks++;
      return realFs.stat(path);
    };
    const store = storeOf(dir, { ...fs, stat });
    for (let n = 1; n <= 50; n++) store.create(uuidOf(n)).info(ended(n));
    const past = new Date(Date.now() - 60_000);
    utimesSync(join(dir, "steps"), past, past);
    await (await store.index()).page({});
    reads();
    looks = 0;
    expect((await (await storeOf(dir, { ...fs, stat }).index()).page({ limit: 5 })).rows).toHaveLength(5);
    expect(reads()).toBe(0);
    expect(looks).toBeLessThanOrEqual(10);
  });
});

/** Everything that may happen to a data folder, by us, by an older rnix, and by hand. */
class RandomFolder {
  readonly dir = temporaryFolder(memoryFolder);
  readonly #random: () => number;
  readonly #stores: RunStore[];
  #runs = 0;
  #changes = 0;

  readonly #journalled: boolean;

  /** `journalled`: every change of a record is made as Rnix makes it. */
  constructor(seed: number, journalled = false) {
    this.#journalled = journalled;
    this.#random = seeded(seed);
    this.#stores = [storeOf(this.dir), storeOf(this.dir)];
  }

  get store(): RunStore {
    const [store = storeOf(this.dir)] = this.#stores.splice(this.#int(2), 1);
    // Sometimes a kernel ends, and another one comes.
    this.#stores.push(this.#int(5) === 0 ? storeOf(this.dir) : store);
    return store;
  }

  act(): void {
    const uuid = uuidOf(1 + this.#int(Math.max(1, this.#runs)));
    const dir = join(this.dir, "steps", uuid);
    const there = existsSync(dir);
    const what = this.#int(10);
    if (what < 4 || !there) this.#write(uuidOf(++this.#runs), what % 2 === 0);
    else if (what < 6) this.#write(uuid, what === 4);
    else if (what === 6) rmSync(dir, { recursive: true });
    else if (what === 7) {
      this.#changing(uuid);
      writeFileSync(join(dir, "proc-info.json"), "damaged");
    } else this.#damageIndex();
  }

  /** The truth: every record read. */
  async records(): Promise<{ good: unknown[]; bad: string[] }> {
    const good: unknown[] = [];
    const bad: string[] = [];
    const names = existsSync(join(this.dir, "steps")) ? readdirSync(join(this.dir, "steps")).sort() : [];
    for (const uuid of names) {
      const text = readFileSync(join(this.dir, "steps", uuid, "proc-info.json"), "utf8");
      if (text === "damaged") bad.push(uuid);
      else {
        const { mac, data_dir: _dataDir, ...info } = JSON.parse(text);
        good.push(mac === undefined ? { ...info, foreign: true } : info);
      }
    }
    return { good, bad };
  }

  #write(uuid: string, running: boolean): void {
    const dir = join(this.dir, "steps", uuid);
    mkdirSync(dir, { recursive: true });
    const steps = ++this.#changes;
    const more = running ? { state: "running" as const, ended_at_ms: null } : {};
    const info = { ...ended(1), uuid, steps, ...more };
    const seal = key.sealOf(`run ${uuid}`);
    // Some are another user's.
    const text = this.#int(3) === 0 ? JSON.stringify(info) : sealedInfo(info, this.dir, seal);
    this.#changing(uuid);
    writeFileSync(join(dir, "new"), text);
    realFs.rename(join(dir, "new"), join(dir, "proc-info.json"));
  }

  #changing(uuid: string): void {
    if (this.#journalled) new ChangedRuns(indexFolder, this.dir, realFs).add(uuid);
  }

  #damageIndex(): void {
    const path = this.#pick(indexFiles(this.dir));
    const what = this.#int(5);
    if (path === undefined) return;
    if (path.endsWith(".changed")) rmSync(path, { recursive: true });
    else if (what === 0) rmSync(path);
    else if (what === 1) truncateSync(path, 0);
    else if (what === 2) truncateSync(path, this.#int(statSync(path).size));
    else if (what === 3) appendFileSync(path, "torn");
    else
      writeFileSync(path, "no database at all, but a text that is longer than a header would be".repeat(99));
  }

  #pick<T>(of: readonly T[]): T | undefined {
    return of[this.#int(of.length)];
  }

  #int(below: number): number {
    return Math.floor(this.#random() * below);
  }
}

test("whatever happens to runs and index, a listing says what the records say", async () => {
  for (let seed = 1; seed <= soak(3, 30); seed++) {
    const folder = new RandomFolder(seed);
    for (let round = 0; round < 12; round++) {
      for (let n = 0; n < 6; n++) folder.act();
      const { good, bad } = await folder.records();
      const survey = await folder.store.survey();
      expect(survey.runs as unknown[], `seed ${seed}, round ${round}`).toEqual(good);
      expect(survey.damaged.map(({ uuid }) => uuid)).toEqual(bad);
      const { rows } = await (await folder.store.index()).list();
      expect(rows, `seed ${seed}, round ${round}`).toEqual(survey.runs.map(rowOf));
    }
  }
});

test("whatever happens to runs and index, a page says what the records say", async () => {
  for (let seed = 1; seed <= soak(3, 30); seed++) {
    const folder = new RandomFolder(seed, true);
    for (let round = 0; round < 12; round++) {
      for (let n = 0; n < 6; n++) folder.act();
      const { good, bad } = await folder.records();
      const store = folder.store;
      const index = await store.index();
      const { rows, open, total, damaged } = await index.page({});
      const found = [...rows, ...open].toSorted((a, b) => (a.uuid < b.uuid ? -1 : 1));
      expect((await index.infos(found)) as unknown[], `seed ${seed}, round ${round}`).toEqual(good);
      expect(damaged.map(({ uuid }) => uuid)).toEqual(bad);
      expect(total).toBe(rows.length);
    }
  }
});

/** Every operation fails from the `after`th on, as if the process had been killed there. */
function killedAfter(after: number): { fs: FsPort; isKilled: () => boolean } {
  let left = after;
  const orKilled =
    <A extends unknown[], R>(operation: (...args: A) => R) =>
    (...args: A): R => {
      if (left-- <= 0) throw Object.assign(new Error("killed"), { code: "EIO" });
      return operation(...args);
    };
  const fs = fsWith({
    open: orKilled(realFs.open),
    write: orKilled(realFs.write),
    rename: orKilled(realFs.rename),
    mkdir: orKilled(realFs.mkdir),
    truncate: orKilled(realFs.truncate),
    fdatasync: orKilled(realFs.fdatasync),
    fsync: orKilled(realFs.fsync),
  });
  return { fs, isKilled: () => left < 0 };
}

test("a kill at any disk operation of a change leaves no page that is wrong", async () => {
  const uuid = uuidOf(1);
  for (let after = 0; ; after++) {
    const dir = temporaryFolder(memoryFolder);
    const reader = storeOf(dir);
    reader.create(uuid).info(ended(1));
    reader.create(uuidOf(2)).info(ended(2));
    const past = new Date(Date.now() - 60_000);
    utimesSync(join(dir, "steps"), past, past);
    expect((await (await reader.index()).page({})).total).toBe(2);
    const { fs, isKilled } = killedAfter(after);
    const writer = storeOf(dir, fs);
    try {
      await writer.amend(uuid, (info) => ({ ...info, exit_code: 7, exit_reason: "amended" }));
      const again = await writer.reopen(uuid);
      again.info(ended(1, { state: "running", ended_at_ms: null, exit_code: null }));
      again.info(ended(1, { exit_code: 9, exit_reason: "ended again" }));
      writer.create(uuidOf(3)).info(ended(3));
    } catch {
      // The operation that was killed.
    }
    for (const store of [reader, storeOf(dir)]) {
      const { rows, open } = await (await store.index()).page({});
      const found = [...rows, ...open].toSorted((a, b) => a.pid - b.pid);
      expect(found, `killed after ${after} operations`).toEqual((await storeOf(dir).list()).map(rowOf));
    }
    if (!isKilled()) break;
  }
});

test("a record that is written again while a listing reads it is on its page", async () => {
  const dir = temporaryFolder(memoryFolder);
  storeOf(dir).create(uuidOf(1)).info(ended(1));
  let changes = 1;
  const fs = fsWith({
    open: (path, mode) => {
      if (mode === "read" && basename(path) === "proc-info.json" && changes-- > 0)
        utimesSync(path, new Date(), new Date(Date.now() + 1_000));
      return realFs.open(path, mode);
    },
  });
  const { rows, open } = await (await storeOf(dir, fs).index()).page({});
  expect([rows.map(({ uuid }) => uuid), open]).toEqual([[uuidOf(1)], []]);
});

test("two kernels and their listings at once: each listing has what was there before it", async () => {
  const dir = temporaryFolder(memoryFolder);
  const stores = [storeOf(dir), storeOf(dir)];
  const expected = new Set<string>();
  const listings: Promise<void>[] = [];
  for (let n = 1; n <= 120; n++) {
    const store = stores[n % 2] ?? storeOf(dir);
    const uuid = uuidOf(n);
    store.create(uuid).info(ended(n));
    expected.add(uuid);
    if (n % 7 === 0) {
      const first = uuidOf(n - 6);
      await store.amend(first, (info) => ({ ...info, exit_code: 5 }));
    }
    if (n % 5 !== 0) continue;
    const before = new Set(expected);
    const amended = Math.floor(n / 7) * 7 - 6;
    const reader = stores[(n + 1) % 2] ?? store;
    listings.push(
      (async () => {
        const { rows } = await (await reader.index()).page({});
        const found = new Map(rows.map((row) => [row.uuid, row]));
        expect([...before].filter((one) => !found.has(one))).toEqual([]);
        if (amended > 0) expect(found.get(uuidOf(amended))?.exit_code).toBe(5);
      })(),
    );
  }
  const results = await Promise.allSettled(listings);
  expect(results.filter(({ status }) => status === "rejected")).toEqual([]);
});
