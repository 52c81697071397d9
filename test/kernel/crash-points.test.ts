import { expect, setDefaultTimeout, test } from "bun:test";
import type { Limits } from "../../src/kernel/types.ts";
import type { KernelHarness } from "../support/kernel.ts";
import { type Loss, MemoryDisk, ROOT } from "../support/memory-disk.ts";
import { seeded } from "../support/seeded.ts";
import { soak } from "../support/soak.ts";
import { type Conversation, LONG, live, machine, requireRight, SHORT, World } from "../support/world.ts";

setDefaultTimeout(120_000);

interface Crash {
  /** The operation of the disk, from the start of that life, at which the machine dies. */
  at: number;
  loss: Loss;
}

/**
 * One run through all its crashes to its end, and what must be then. Returns the operations of the disk in its last
 * life.
 */
async function through(
  crashes: readonly Crash[],
  random: () => number,
  { chatter, limits }: Conversation = SHORT,
): Promise<number> {
  const world = new World(chatter);
  let disk = new MemoryDisk((path) => path.replace(/^.*\/project(?=\/|$)/, ROOT));
  for (const { at, loss } of crashes) {
    disk.diesAt = at;
    await cutOff(disk, world, limits);
    disk = disk.after(loss, random);
  }
  await using h = machine(disk, world, limits);
  const uuid = await live(h, world);
  await requireRight(h, uuid, world);
  if (limits && crashes.length === 0) await requireCompacted(h, uuid);
  return disk.operations;
}

/** Nothing of it is removed before its machine is dead. */
async function cutOff(disk: MemoryDisk, world: World, limits?: Partial<Limits>): Promise<void> {
  await using h = machine(disk, world, limits);
  await live(h, world).catch(() => undefined);
}

/** Its conversation was summarised, and old results were cut. */
async function requireCompacted(h: KernelHarness, uuid: string): Promise<void> {
  const { records } = await h.runs.steps(uuid);
  const made = records.flatMap(({ compactions = [] }) => compactions);
  expect(made.some(({ summary }) => summary?.by === "model")).toBe(true);
  expect(made.some(({ cut }) => cut.length > 0)).toBe(true);
}

const never = (): number => 0;

test("a machine killed at any disk operation: each act is done once, and each record says so", async () => {
  const operations = await through([], never);
  expect(operations).toBeGreaterThan(50);
  for (let at = 1; at <= operations; at++) await through([{ at, loss: "nothing" }], never);
});

test("a power loss at any disk operation that takes all that was not synced", async () => {
  const operations = await through([], never);
  for (let at = 1; at <= operations; at++) await through([{ at, loss: "unsynced" }], never);
});

test("a kill and a power loss in a run whose conversation is compacted", async () => {
  const operations = await through([], never, LONG);
  for (let at = 1; at <= operations; at += soak(3, 1)) {
    await through([{ at, loss: "nothing" }], never, LONG);
    await through([{ at, loss: "unsynced" }], never, LONG);
  }
});

const SAMPLES = soak(40, 150);

test("several kills and power losses in a row that take a part and leave zeros", async () => {
  const operations = await through([], never);
  const losses: Loss[] = ["nothing", "unsynced", "some", "some"];
  for (let seed = 1; seed <= SAMPLES; seed++) {
    const random = seeded(seed);
    const conversation = seed % 3 === 0 ? LONG : SHORT;
    const crash = (): Crash => ({
      at: 1 + Math.floor(random() * operations),
      loss: losses[Math.floor(random() * losses.length)] ?? "some",
    });
    const crashes = Array.from({ length: 1 + Math.floor(random() * 3) }, crash);
    await through(crashes, random, conversation).catch((cause: unknown) => {
      throw new Error(`seed ${seed}: ${JSON.stringify(crashes)}`, { cause });
    });
  }
});
