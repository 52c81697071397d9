import { describe, expect, setDefaultTimeout, test } from "bun:test";
import { SIGKILL } from "../../src/lib/signals.ts";
import { settled } from "../support/fake-clock.ts";
import { MemoryDisk, ROOT } from "../support/memory-disk.ts";
import { soak } from "../support/soak.ts";
import { until } from "../support/until.ts";
import { type Conversation, LONG, live, machine, requireRight, SHORT, World } from "../support/world.ts";

setDefaultTimeout(120_000);

/** Every third operation of the disk, in the soak each. */
const EVERY = soak(3, 1);

const newDisk = (): MemoryDisk => new MemoryDisk((path) => path.replace(/^.*\/project(?=\/|$)/, ROOT));

async function operationsOfRun({ chatter, limits }: Conversation): Promise<number> {
  const world = new World(chatter);
  const disk = newDisk();
  await using h = machine(disk, world, limits);
  await live(h, world);
  return disk.operations;
}

for (const [code, what, conversation] of [
  ["ENOSPC", "is full", SHORT],
  ["EROFS", "is read-only", SHORT],
  ["EIO", "is broken", SHORT],
  ["ENOSPC", "is full under a conversation that is compacted", LONG],
] as const) {
  test(`a disk that ${what} from any operation on: the run ends before its effects, and resumes when the disk works again`, async () => {
    const { chatter, limits } = conversation;
    const operations = await operationsOfRun(conversation);
    const ends = new Map<string | null, number>();
    for (let from = 1; from <= operations; from += EVERY) {
      const world = new World(chatter);
      const disk = newDisk();
      const first = machine(disk, world, limits);
      disk.refuses = { from, code };
      // Where the disk takes no record from the start there is no run at all.
      const pid = await first.spawn("go").catch(() => undefined);
      const end = pid === undefined ? "refused" : (await first.follow(pid)).info.exit_reason;
      ends.set(end, (ends.get(end) ?? 0) + 1);
      // By the same kernel, or by one that comes when it has ended on a disk that still was so.
      const later = from % 2 === 0;
      if (later) await first[Symbol.asyncDispose]();
      disk.refuses = undefined;
      await using next = later ? machine(disk, world, limits) : first;
      const uuid = await live(next, world).catch((cause: unknown) => {
        throw new Error(`from operation ${from}, after ${end}`, { cause });
      });
      await requireRight(next, uuid, world);
    }
    expect(ends.get("record_error")).toBeGreaterThan(operations / 3 / EVERY);
    expect([...ends.keys()].toSorted()).toEqual(["completed", "record_error", "refused"]);
  });
}

describe("a disk that is slow", () => {
  test("holds up an effect until its record is durable, and no other run", async () => {
    const world = new World();
    const disk = newDisk();
    await using h = machine(disk, world);
    const synced = Promise.withResolvers<void>();
    disk.slow = synced.promise;
    const run = h.follow(await h.spawn("go"));
    await until(() => h.requests.length === 2, "its second answer, which wants an effect");
    await until(() => h.kernel.processes.info(1).tool_calls === 2, "the look before it");
    const other = await h.spawn("go");
    await until(() => h.requests.length === 4, "the answers of another");
    expect(world.acts).toEqual([]);
    h.kernel.processes.kill(other, SIGKILL);
    synced.resolve();
    expect((await run).info).toMatchObject({ exit_reason: "completed" });
  });

  test("makes no waiting effect after its run was killed", async () => {
    const world = new World();
    const disk = newDisk();
    await using h = machine(disk, world);
    const synced = Promise.withResolvers<void>();
    disk.slow = synced.promise;
    const pid = await h.spawn("go");
    await until(() => h.kernel.processes.info(pid).tool_calls === 2, "the look before its first effect");
    await settled();
    h.kernel.processes.kill(pid, SIGKILL);
    synced.resolve();
    expect((await h.follow(pid)).info).toMatchObject({ exit_code: 137 });
    expect(world.acts).toEqual([]);
  });
});
