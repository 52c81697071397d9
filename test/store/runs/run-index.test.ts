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
  writeFileSync,
} from "node:fs";
import { basename, join } from "node:path";
import { FileLock } from "../../../src/store/files/file-lock.ts";
import { type FsPort, realFs } from "../../../src/store/files/fs-port.ts";
import { rowOf } from "../../../src/store/runs/index-entry.ts";
import { keyOfThisProcess } from "../../../src/store/runs/record-key.ts";
import { INDEX_FILE } from "../../../src/store/runs/run-index.ts";
import { RunStore } from "../../../src/store/runs/run-store.ts";
import { sealedInfo } from "../../../src/store/runs/run-writer.ts";
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
  test("reads the record of an ended run once, also for other kernels, and that of a live one each time", async () => {
    const dir = temporaryFolder(memoryFolder);
    const { fs, reads } = counting();
    const store = new RunStore(dir, fs);
    for (let n = 1; n <= 250; n++) store.create(uuidOf(n)).info(ended(n));
    store.create(uuidOf(251)).info(procInfo({ uuid: uuidOf(251), pid: 251 }));
    expect((await store.list()).map(({ pid }) => pid)).toEqual(Array.from({ length: 251 }, (_, i) => i + 1));
    expect(reads()).toBe(251 + 251);
    const again = await store.list();
    expect(again[9]).toEqual(ended(10));
    // The live one's: by the listing, and for its record.
    expect(reads()).toBe(2);
    const other = new RunStore(dir, fs);
    expect(await other.list()).toEqual(again);
    expect(reads()).toBe(2);
    expect(openFiles(dir)).toBe(0);
  });

  test("gives the same records each time, and none whose index entry changed after validation", async () => {
    const dir = temporaryFolder(memoryFolder);
    const store = new RunStore(dir);
    for (let n = 1; n <= 5; n++) store.create(uuidOf(n)).info(ended(n, { intent: "as recorded" }));
    const expected = Array.from({ length: 5 }, (_, n) => ended(n + 1, { intent: "as recorded" }));
    for (const _ of ["from its file", "validated", "from memory"])
      expect(await store.list()).toEqual(expected);
    const index = join(dir, INDEX_FILE);
    writeFileSync(index, readFileSync(index, "utf8").replaceAll("as recorded", "as changed!"));
    expect(await store.list()).toEqual(expected);
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
    expect(existsSync(join(dir, INDEX_FILE))).toBeFalse();
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
    expect(await store.list()).toHaveLength(1);
    rmSync(join(dir, "index"));
    mkdirSync(join(dir, "index"));
    const lock = FileLock.tryAcquire(join(dir, `${INDEX_FILE}.lock`));
    expect(await new RunStore(dir).list()).toHaveLength(1);
    expect(existsSync(join(dir, INDEX_FILE))).toBeFalse();
    lock?.release({ remove: true });
    expect(await new RunStore(dir).list()).toHaveLength(1);
    expect(readdirSync(join(dir, "index"))).toEqual(["runs.jsonl"]);
  });

  test("bounds the file's size while runs are added and removed", async () => {
    const dir = temporaryFolder(memoryFolder);
    const store = new RunStore(dir);
    let largest = 0;
    for (let round = 0; round < 7; round++) {
      for (let n = 0; n < 300; n++) store.create(uuidOf(round * 300 + n)).info(ended(round * 300 + n));
      expect(await store.list()).toHaveLength(300);
      largest = Math.max(largest, statSync(join(dir, INDEX_FILE)).size);
      for (const info of await store.list()) rmSync(store.dir(info.uuid), { recursive: true });
    }
    const rows = readFileSync(join(dir, INDEX_FILE), "utf8").split("\n").length / 2;
    expect(rows).toBeLessThan(2_000);
    expect(largest).toBeLessThan(2_500 * 3_000);
    expect(readdirSync(join(dir, "index"))).toEqual(["runs.jsonl"]);
  });
});

/** Everything that may happen to a data folder, by us, by an older rnix, and by hand. */
class RandomFolder {
  readonly dir = temporaryFolder(memoryFolder);
  readonly #random: () => number;
  readonly #stores: RunStore[];
  #runs = 0;
  #changes = 0;

  constructor(seed: number) {
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
    else if (what === 7) writeFileSync(join(dir, "proc-info.json"), "damaged");
    else if (existsSync(join(this.dir, INDEX_FILE))) this.#damageCatalogue();
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
    writeFileSync(join(dir, "new"), text);
    realFs.rename(join(dir, "new"), join(dir, "proc-info.json"));
  }

  #damageCatalogue(): void {
    const path = join(this.dir, INDEX_FILE);
    const size = statSync(path).size;
    const what = this.#int(4);
    if (what === 0) rmSync(path);
    else if (what === 1) truncateSync(path, this.#int(size));
    else if (what === 2) appendFileSync(path, '{"form":1,"torn');
    else {
      const bytes = readFileSync(path);
      for (let n = 0; n < 5 && size > 0; n++) bytes[this.#int(size)] = this.#int(256);
      writeFileSync(path, bytes);
    }
  }

  #int(below: number): number {
    return Math.floor(this.#random() * below);
  }
}

test("whatever happens to runs and index, a listing says what the records say", async () => {
  for (let seed = 1; seed <= 40; seed++) {
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
