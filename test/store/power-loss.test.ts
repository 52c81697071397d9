import { expect, setDefaultTimeout, test } from "bun:test";
import { type BlobRef, checkBlob } from "../../src/store/runs/blob-store.ts";
import { RunStore, type RunWriter } from "../../src/store/runs/run-store.ts";
import { openJournal } from "../support/open-journal.ts";
import { procInfo } from "../support/samples.ts";
import { seeded } from "../support/seeded.ts";
import { type Loss, MemoryDisk } from "./memory-disk.ts";
import { answer, callStart, stepRecord } from "./samples.ts";

// Hundreds of syncs: a busy disk takes its time.
setDefaultTimeout(120_000);

const UUID = "019a0000-0000-7000-8000-000000000001";
const PROJECT = "/home/me/project";
const DATA = `${PROJECT}/.rnix/data`;
const LOSSES: Loss[] = ["names", "contents"];

/** What a reader must find of a run after a power loss: no less than this. */
interface Promised {
  pid: number;
  prompt: string;
  steps: number;
  /** The step whose call had started. */
  called: number;
  kept: BlobRef[];
}

/** A run that does a random thing at a time, and knows what is durable. */
class RandomRun {
  readonly #writer: RunWriter;
  readonly #random: () => number;
  readonly #now: Promised = { pid: 1, prompt: "head 1", steps: 0, called: 0, kept: [] };
  #step = 1;
  promised: Promised | null = null;

  constructor(store: RunStore, random: () => number) {
    this.#writer = store.create(UUID);
    this.#random = random;
    this.#info();
    this.#meta();
  }

  async act(): Promise<void> {
    const now = this.#now;
    const what = this.#int(7);
    if (what === 0) this.#info(++now.pid);
    if (what === 1) this.#meta(`head ${this.#int(100)}`);
    if (what === 2) this.#call();
    if (what === 3) this.#record();
    if (what === 4) await this.#keep();
    if (what < 5) return;
    const then = { ...now, kept: [...now.kept] };
    const synced = this.#writer.sync();
    // Something may come while the disk works.
    if (what === 6) this.#info(++now.pid);
    await synced;
    this.promised = then;
  }

  #int(below: number): number {
    return Math.floor(this.#random() * below);
  }

  #info(pid = this.#now.pid): void {
    this.#writer.info(procInfo({ uuid: UUID, pid }));
  }

  #meta(prompt = this.#now.prompt): void {
    this.#now.prompt = prompt;
    this.#writer.meta({ v: 1, system_prompt: prompt, tools: [] });
  }

  #call(): void {
    this.#writer.journal(callStart(this.#step));
    this.#now.called = this.#step;
  }

  #record(): void {
    this.#writer.journal(answer(this.#step));
    this.#writer.step(stepRecord(this.#step));
    this.#now.steps = this.#step++;
  }

  async #keep(): Promise<void> {
    const { path: _, ...ref } = await this.#writer.storeBlob("x.txt", `result ${this.#int(5)}`);
    this.#now.kept.push(ref);
  }
}

test("what was synced is there after a power loss at any moment, whether names or contents are lost", async () => {
  for (let seed = 1; seed <= 150; seed++) {
    const random = seeded(seed);
    const disk = new MemoryDisk(PROJECT);
    const run = new RandomRun(new RunStore(DATA, disk.fs), random);
    for (let n = Math.floor(random() * 25); n > 0; n--) await run.act();
    for (const loss of LOSSES) {
      const left = disk.afterLoss(loss);
      await check(new RunStore(DATA, left.fs), left, run.promised, `seed ${seed}, ${loss}`);
    }
  }
});

test("a run resumes after a power loss, and the next loss takes nothing of what both have synced", async () => {
  for (const loss of LOSSES) {
    let disk = new MemoryDisk(PROJECT);
    const writer = new RunStore(DATA, disk.fs).create(UUID);
    writer.info(procInfo({ uuid: UUID, pid: 1 }));
    writer.meta({ v: 1, system_prompt: "head", tools: [] });
    await writer.sync();
    for (let pid = 2; pid < 6; pid++) {
      const store = new RunStore(DATA, disk.fs);
      const again = await store.reopen(UUID);
      again.info(procInfo({ uuid: UUID, pid }));
      // Lost before it is durable, then durable.
      expect((await new RunStore(DATA, disk.afterLoss(loss).fs).info(UUID))?.pid).toBeGreaterThanOrEqual(
        pid - 1,
      );
      if (pid % 2 === 0) {
        disk = disk.afterLoss(loss);
        const third = await new RunStore(DATA, disk.fs).reopen(UUID);
        third.info(procInfo({ uuid: UUID, pid }));
        await third.sync();
      } else await again.sync();
      disk = disk.afterLoss(loss);
      expect((await new RunStore(DATA, disk.fs).info(UUID))?.pid).toBe(pid);
    }
  }
});

async function check(
  store: RunStore,
  disk: MemoryDisk,
  promised: Promised | null,
  when: string,
): Promise<void> {
  if (promised === null) return;
  const info = await store.info(UUID);
  expect(info?.pid, when).toBeGreaterThanOrEqual(promised.pid);
  expect((await store.meta(UUID))?.system_prompt, when).toBeString();
  const { records } = await store.steps(UUID);
  expect(records.length, when).toBeGreaterThanOrEqual(promised.steps);
  const { entries } = await openJournal(store, UUID);
  const called = entries.some((entry) => entry.t === "call_start" && entry.step >= promised.called);
  expect(called || records.length >= promised.called, when).toBeTrue();
  for (const ref of promised.kept) {
    const found = await checkBlob(disk.fs, store.dir(UUID), ref, { whole: true });
    expect(found.problem, when).toBeNull();
  }
}
