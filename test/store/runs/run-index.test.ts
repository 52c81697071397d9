import { Database } from "bun:sqlite";
import { describe, expect, setDefaultTimeout, test } from "bun:test";
import {
  appendFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { basename, join } from "node:path";
import { type FsPort, realFs } from "../../../src/store/files/fs-port.ts";
import { ChangedRuns } from "../../../src/store/runs/changed-runs.ts";
import { keyOfThisProcess } from "../../../src/store/runs/record-key.ts";
import { sealedInfo } from "../../../src/store/runs/run-files.ts";
import type { PageQuery, RunLists } from "../../../src/store/runs/run-lists.ts";
import { rowOf } from "../../../src/store/runs/run-row.ts";
import { RunStore } from "../../../src/store/runs/run-store.ts";
import type { ProcInfo } from "../../../src/store/runs/schema.ts";
import { memoryFolder } from "../../support/memory-folder.ts";
import { procInfo } from "../../support/samples.ts";
import { seeded } from "../../support/seeded.ts";
import { fsWith, openFiles, temporaryFolder } from "../support.ts";

setDefaultTimeout(120_000);

function uuidOf(n: number): string {
  return `019a0000-0000-7000-8000-${n.toString(16).padStart(12, "0")}`;
}

function ended(n: number, more: Partial<ProcInfo> = {}): ProcInfo {
  return procInfo({ uuid: uuidOf(n), pid: n, state: "dead", ended_at_ms: n, exit_code: 0, ...more });
}

function indexFile(dir: string): string {
  const name = readdirSync(join(dir, "index")).find((one) => one.startsWith("runs-v") && one.endsWith(".db"));
  return join(dir, "index", name ?? "none");
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
    const store = new RunStore(dir, fs);
    for (let n = 1; n <= 250; n++) store.create(uuidOf(n)).info(ended(n));
    store.create(uuidOf(251)).info(procInfo({ uuid: uuidOf(251), pid: 251 }));
    expect((await store.list()).map(({ pid }) => pid)).toEqual(Array.from({ length: 251 }, (_, i) => i + 1));
    expect(reads()).toBe(251);
    const again = await store.list();
    expect(again[9]).toEqual(ended(10));
    const other = new RunStore(dir, fs);
    expect(await other.list()).toEqual(again);
    expect(reads()).toBe(0);
    expect(openFiles(dir)).toBe(0);
  });

  test("gives the same records each time, and none whose index entry changed after validation", async () => {
    const dir = temporaryFolder(memoryFolder);
    const store = new RunStore(dir);
    for (let n = 1; n <= 5; n++) store.create(uuidOf(n)).info(ended(n, { intent: "as recorded" }));
    const expected = Array.from({ length: 5 }, (_, n) => ended(n + 1, { intent: "as recorded" }));
    for (const _ of ["from its file", "validated", "from memory"])
      expect(await store.list()).toEqual(expected);
    const db = new Database(indexFile(dir));
    db.run("UPDATE record SET text = replace(text, 'as recorded', 'as changed!')");
    db.run("UPDATE entry SET row = replace(row, '\"exit_code\":0', '\"exit_code\":1')");
    db.close();
    expect(await store.list()).toEqual(expected);
    const { rows } = await (await store.index()).page({});
    expect(rows.map(({ exit_code }) => exit_code)).toEqual([0, 0, 0, 0, 0]);
  });

  test("takes a long record from its own file", async () => {
    const { fs, reads } = counting();
    const dir = temporaryFolder(memoryFolder);
    const long = ended(1, { result: "x".repeat(100_000) });
    const store = new RunStore(dir, fs);
    store.create(uuidOf(1)).info(long);
    expect(await store.list()).toEqual([long]);
    expect(await new RunStore(dir, fs).list()).toEqual([long]);
    expect(reads()).toBeGreaterThan(2);
    expect(statSync(indexFile(dir)).size).toBeLessThan(100_000);
  });

  test("that begins while another is under way sees what came before it", async () => {
    const store = new RunStore(temporaryFolder(memoryFolder));
    for (let n = 1; n <= 20; n++) store.create(uuidOf(n)).info(ended(n));
    const first = store.list();
    await Promise.resolve();
    store.create(uuidOf(21)).info(ended(21));
    const [, second, third] = await Promise.all([first, store.list(), store.list()]);
    expect(second).toHaveLength(21);
    expect(third).toHaveLength(21);
  });

  test("needs no index: a process that can't write one reads the records", async () => {
    const dir = temporaryFolder(memoryFolder);
    const store = new RunStore(dir);
    store.create(uuidOf(1)).info(ended(1));
    writeFileSync(join(dir, "index"), "in the way");
    for (const _ of ["from the records", "from memory"]) {
      expect(await store.list()).toEqual([ended(1)]);
      expect((await (await store.index()).page({})).rows).toHaveLength(1);
    }
    store.create(uuidOf(2)).info(ended(2));
    expect(await store.list()).toHaveLength(2);
  });

  test("bounds the file's size while runs are added and removed", async () => {
    const dir = temporaryFolder(memoryFolder);
    const store = new RunStore(dir);
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
    const store = new RunStore(dir);
    expect(await store.list()).toEqual([]);
    expect((await (await store.index()).page({})).total).toBe(0);
    expect(existsSync(dir)).toBeFalse();
    store.create(uuidOf(1)).info(ended(1));
    expect((await (await store.index()).page({})).total).toBe(1);
  });

  test("removes the index of an earlier version", async () => {
    const dir = temporaryFolder(memoryFolder);
    mkdirSync(join(dir, "index"));
    writeFileSync(join(dir, "index/runs.jsonl"), "{}");
    await new RunStore(dir).list();
    expect(existsSync(join(dir, "index/runs.jsonl"))).toBeFalse();
  });
});

describe("a page", () => {
  const made = async (): Promise<RunLists> => {
    const dir = temporaryFolder(memoryFolder);
    const store = new RunStore(dir);
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
    const store = new RunStore(dir, { ...fs, stat });
    for (let n = 1; n <= 50; n++) store.create(uuidOf(n)).info(ended(n));
    const past = new Date(Date.now() - 60_000);
    utimesSync(join(dir, "steps"), past, past);
    await (await store.index()).page({});
    reads();
    looks = 0;
    expect((await (await new RunStore(dir, { ...fs, stat }).index()).page({ limit: 5 })).rows).toHaveLength(
      5,
    );
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
    this.#stores = [new RunStore(this.dir), new RunStore(this.dir)];
  }

  get store(): RunStore {
    const [store = new RunStore(this.dir)] = this.#stores.splice(this.#int(2), 1);
    // Sometimes a kernel ends, and another one comes.
    this.#stores.push(this.#int(5) === 0 ? new RunStore(this.dir) : store);
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
    } else if (existsSync(join(this.dir, "index"))) this.#damageIndex();
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
    const seal = keyOfThisProcess().sealOf(`run ${uuid}`);
    // Some are another user's.
    const text = this.#int(3) === 0 ? JSON.stringify(info) : sealedInfo(info, this.dir, seal);
    this.#changing(uuid);
    writeFileSync(join(dir, "new"), text);
    realFs.rename(join(dir, "new"), join(dir, "proc-info.json"));
  }

  #changing(uuid: string): void {
    if (this.#journalled) new ChangedRuns(this.dir, realFs).add(uuid);
  }

  #damageIndex(): void {
    const folder = join(this.dir, "index");
    const names = readdirSync(folder).filter((name) => name !== "lock");
    const what = this.#int(this.#journalled ? 5 : 8);
    const path = join(folder, names[this.#int(names.length)] ?? "none");
    if (what === 0) rmSync(folder, { recursive: true });
    else if (what === 1) rmSync(path, { force: true });
    else if (!existsSync(path)) return;
    else if (what === 2) truncateSync(path, 0);
    // Nothing but a power loss takes the end of the journal, and after one all records are looked at.
    else if (what === 3) truncateSync(path, path.endsWith("changed") ? 0 : this.#int(statSync(path).size));
    else if (what === 4) appendFileSync(path, "torn");
    else {
      const bytes = readFileSync(path);
      for (let n = 0; n < 5 && bytes.length > 0; n++) bytes[this.#int(bytes.length)] = this.#int(256);
      writeFileSync(path, bytes);
    }
  }

  #int(below: number): number {
    return Math.floor(this.#random() * below);
  }
}

test("whatever happens to runs and index, a listing says what the records say", async () => {
  for (let seed = 1; seed <= 30; seed++) {
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
  for (let seed = 1; seed <= 30; seed++) {
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
    const reader = new RunStore(dir);
    reader.create(uuid).info(ended(1));
    reader.create(uuidOf(2)).info(ended(2));
    const past = new Date(Date.now() - 60_000);
    utimesSync(join(dir, "steps"), past, past);
    expect((await (await reader.index()).page({})).total).toBe(2);
    const { fs, isKilled } = killedAfter(after);
    const writer = new RunStore(dir, fs);
    try {
      await writer.amend(uuid, (info) => ({ ...info, exit_code: 7, exit_reason: "amended" }));
      const again = await writer.reopen(uuid);
      again.info(ended(1, { state: "running", ended_at_ms: null, exit_code: null }));
      again.info(ended(1, { exit_code: 9, exit_reason: "ended again" }));
      writer.create(uuidOf(3)).info(ended(3));
    } catch {
      // The operation that was killed.
    }
    for (const store of [reader, new RunStore(dir)]) {
      const { rows, open } = await (await store.index()).page({});
      const found = [...rows, ...open].toSorted((a, b) => a.pid - b.pid);
      expect(found, `killed after ${after} operations`).toEqual((await new RunStore(dir).list()).map(rowOf));
    }
    if (!isKilled()) break;
  }
});

test("a record that is written again while a listing reads it is on its page", async () => {
  const dir = temporaryFolder(memoryFolder);
  new RunStore(dir).create(uuidOf(1)).info(ended(1));
  let changes = 1;
  const fs = fsWith({
    open: (path, mode) => {
      if (mode === "read" && basename(path) === "proc-info.json" && changes-- > 0)
        utimesSync(path, new Date(), new Date(Date.now() + 1_000));
      return realFs.open(path, mode);
    },
  });
  const { rows, open } = await (await new RunStore(dir, fs).index()).page({});
  expect([rows.map(({ uuid }) => uuid), open]).toEqual([[uuidOf(1)], []]);
});

test("two kernels and their listings at once: each listing has what was there before it", async () => {
  const dir = temporaryFolder(memoryFolder);
  const stores = [new RunStore(dir), new RunStore(dir)];
  const expected = new Set<string>();
  const listings: Promise<void>[] = [];
  for (let n = 1; n <= 120; n++) {
    const store = stores[n % 2] ?? new RunStore(dir);
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
