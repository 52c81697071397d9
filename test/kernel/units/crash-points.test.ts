import { expect, setDefaultTimeout, test } from "bun:test";
import { join } from "node:path";
import { recordedUnits } from "../../../src/store/runs/recorded-units.ts";
import { FakeClock } from "../../support/fake-clock.ts";
import { calls, KernelHarness, type Model, says } from "../../support/kernel.ts";
import { MemoryDisk } from "../../support/memory-disk.ts";
import { memoryFolder } from "../../support/memory-folder.ts";
import { soak } from "../../support/soak.ts";
import { UnitPrograms } from "../../support/unit-programs.ts";
import { background, diskName, lineOf, monitor, UNIT_DEVICES } from "../../support/unit-stage.ts";
import { until } from "../../support/until.ts";

setDefaultTimeout(120_000);

/** Of every kernel on such a disk, one after the other: the outputs of units are there. */
const FOLDER = join(memoryFolder, `rnix-kernel-units-${process.pid}`);

/** What is outside of the machine that dies: the programs of units, and what they have printed. */
class Outside {
  readonly programs = new UnitPrograms();
  /** The test ends the programs, not the model's second answer. */
  isQuiet = false;

  /** Starts a build and a watch, sees both end, and answers. */
  readonly model: Model = () => {
    const { starts } = this.programs;
    if (starts.length === 0) return calls(background("build"), monitor("watch"));
    return says(this.isQuiet || this.endAll() > 0 ? "waiting" : "done");
  };

  /** Returns how many programs it has ended. */
  endAll(): number {
    const { programs } = this;
    const running = [...new Set(programs.starts)].filter((command) => programs.isRunning(command));
    for (const command of running) {
      if (command === "watch") programs.print(command, `${lineOf(command)}\n`);
      programs.exit(command, 0);
    }
    return running.length;
  }
}

interface Machine extends AsyncDisposable {
  disk: MemoryDisk;
  h: KernelHarness;
  clock: FakeClock;
}

function machine(disk: MemoryDisk, outside: Outside): Machine {
  const clock = new FakeClock();
  const h = new KernelHarness({ ...UNIT_DEVICES, model: outside.model, fs: disk, dir: FOLDER, clock });
  outside.programs.serve(h, () => disk.dead);
  return { disk, h, clock, [Symbol.asyncDispose]: () => passing(clock, h[Symbol.asyncDispose]()) };
}

/** Lets the time pass in small parts, until the work is done. */
async function passing<T>(clock: FakeClock, work: Promise<T>, isDead = () => false): Promise<T> {
  let isOver = false;
  const over = (): void => {
    isOver = true;
  };
  work.then(over, over);
  for (const giveUp = performance.now() + GIVE_UP_MS; !isOver; ) {
    if (performance.now() > giveUp) throw new Error("the run waits for ever");
    // A kernel that can't record the end of a unit tries again, also when its disk is dead.
    if (isDead()) await clock.advance(LAST_MS);
    if (isDead() && !isOver) throw new Error("the machine is dead");
    await clock.advance(PART_MS);
    // The comparison of files takes other processes and threads.
    await Bun.sleep(1);
  }
  return work;
}

const PART_MS = 20;
const GIVE_UP_MS = 20_000;
const LAST_MS = 500;

/** Begins the run, or resumes it, and follows it to its end. */
async function live({ disk, h, clock }: Machine): Promise<string> {
  const saved = (await h.runs.list()).at(-1);
  if (saved?.exit_reason === "completed") return saved.uuid;
  const resumed =
    saved && (await h.kernel.lifecycle.resume(saved.uuid, null, h.opts()).catch(() => undefined));
  const pid = resumed ? resumed.pid : await h.spawn("go");
  const { info } = await passing(clock, h.follow(pid), () => disk.dead);
  return info.uuid;
}

/** The run has ended by itself, and its model has read each end and each line once. */
async function requireRight({ h }: Machine, uuid: string, outside: Outside): Promise<void> {
  expect(await h.runs.info(uuid)).toMatchObject({ exit_reason: "completed", result: "done" });
  const { records } = await h.runs.steps(uuid);
  const text = records.flatMap(({ messages }) => messages.map(({ content }) => content)).join("\n");
  const units = recordedUnits((await h.runs.units(uuid)).records);
  expect(units.length).toBeGreaterThanOrEqual(outside.programs.starts.length);
  for (const { snapshot } of units) {
    const { id, status } = snapshot;
    const ends = text.match(new RegExp(`unit ${id} .*(completed|failed|killed)`, "g"))?.length ?? 0;
    expect({ id, status, ends, text }).toMatchObject({ ends: 1 });
  }
  const lines = text.split(lineOf("watch")).length - 1;
  const watched = units.filter(
    ({ snapshot: { kind, status } }) => kind === "monitor" && status === "completed",
  );
  expect({ lines, text }).toMatchObject({ lines: watched.length });
  expect((await h.runs.inbox(uuid)).unread).toEqual([]);
}

/** Nothing of it is removed before its machine is dead. */
async function cutOff(dying: Machine): Promise<void> {
  await using _ = dying;
  await live(dying).catch(() => undefined);
}

/** Every third operation of the disk, in the soak each. */
const EVERY = soak(3, 1);

/** One run, killed at these operations of the disk in one life each, to its end. Returns the operations of the disk in its last life. */
async function through(crashes: readonly number[]): Promise<number> {
  const outside = new Outside();
  let disk = new MemoryDisk(diskName);
  for (const at of crashes) {
    disk.diesAt = at;
    await cutOff(machine(disk, outside));
    disk = disk.after("nothing", () => 0);
  }
  const last = machine(disk, outside);
  await using _ = last;
  await requireRight(last, await live(last), outside);
  return disk.operations;
}

test("killed at any disk operation: the model reads each end and each line once", async () => {
  const operations = await through([]);
  expect(operations).toBeGreaterThan(30);
  for (let at = 1; at <= operations; at += EVERY)
    await through([at]).catch((cause: unknown) => {
      throw new Error(`operation ${at}`, { cause });
    });
});

test("killed while units report, and again when their reports have been read", async () => {
  const operations = await through([]);
  for (let at = operations >> 1; at <= operations; at += EVERY) {
    const after = await through([at]);
    for (const again of [after >> 1, after - 1].filter((one) => one > 0))
      await through([at, again]).catch((cause: unknown) => {
        throw new Error(`operation ${at}, then ${again}`, { cause });
      });
  }
});

test("a disk that is full when units end: their reports are tried again, and each is read once", async () => {
  const outside = new Outside();
  await using one = machine(new MemoryDisk(diskName), outside);
  const { clock, disk, h } = one;
  const pid = await h.spawn("go");
  outside.isQuiet = true;
  const { uuid } = h.kernel.processes.info(pid);
  await passing(
    clock,
    until(() => h.kernel.doing({ uuid })?.kind === "unit"),
  );
  disk.refuses = { from: 1, code: "ENOSPC" };
  outside.endAll();
  await clock.advance(10_000);
  expect(h.requests).toHaveLength(2);
  expect(h.warnings.filter((text) => text.includes("signal of unit"))).toHaveLength(1);
  disk.refuses = undefined;
  outside.isQuiet = false;
  await passing(clock, h.follow(pid));
  await requireRight(one, uuid, outside);
});
