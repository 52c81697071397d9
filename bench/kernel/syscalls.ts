import { Debugger } from "../../src/kernel/debugger.ts";
import { FileSystem } from "../../src/kernel/file-system.ts";
import { OpenContexts } from "../../src/kernel/files/open-context.ts";
import type { Process } from "../../src/kernel/process/process.ts";
import { realClock } from "../../src/lib/clock.ts";
import { O_RDWR, SyscallError } from "../../src/plugin/index.ts";
import type { Figure } from "../figure.ts";
import { median } from "../measure.ts";
import { BenchKernel, NULL, nullFile } from "./bench-kernel.ts";

/** Open, Write, Read, Close. */
const CALLS = 4;
/** Of these four, in one measurement. */
const TURNS = 1_000;
/** Measurements to a round of the benchmark: they are short. */
const MEASUREMENTS = 4;
/** Rounds until the compiler is done with it. */
const WARM_UP = 10;
const GOAL_RECORDED_US = 2;
const GOAL_WATCHED_US = 5;

/** Makes a syscall as the kernel does, and keeps no record of it. */
class Untraced extends Debugger {
  override async call<T>(
    _proc: Process,
    _syscall: string,
    _args: Record<string, unknown>,
    run: () => Promise<T> | T,
  ): Promise<T> {
    return await run();
  }
}

function untracedFiles(): FileSystem {
  // What an open of the null device uses.
  const parts = { guarded: [] } as unknown as ConstructorParameters<typeof OpenContexts>[0];
  const openContexts = new OpenContexts(parts);
  const asks = { require: () => Promise.reject(new SyscallError("UNAVAILABLE", "No client can answer.")) };
  const debug = new Untraced(realClock, { find: () => undefined });
  return new FileSystem({ debug, openContexts, clock: realClock, asks, taint: () => undefined });
}

/** What a syscall on the null device costs, and how much of it is its record: on disk, and sent to a tracer. */
export async function syscalls(rounds: number): Promise<Figure[]> {
  await using bench = new BenchKernel();
  const { kernel } = bench;
  const us = await bench.as(async (proc) => {
    const untraced = untracedFiles();
    return await inTurns(MEASUREMENTS * rounds, {
      bare: () => bareCalls(proc),
      off: () => calls(untraced, proc),
      on: () => calls(kernel.files, proc),
      watched: () => watchedCalls(bench, proc),
    });
  });
  const floor = { name: "bare file", value: 1e6 / us.bare };
  const perSecond = (what: string, value: number): Figure => ({
    what,
    value: 1e6 / value,
    unit: "/s",
    floor,
  });
  return [
    perSecond("syscalls on a null device, tracing off", us.off),
    perSecond("syscalls on a null device, recorded", us.on),
    perSecond("syscalls on a null device, recorded and watched", us.watched),
    { what: "record of a syscall", value: us.on - us.off, unit: "µs", goal: GOAL_RECORDED_US },
    { what: "record of a syscall, watched", value: us.watched - us.off, unit: "µs", goal: GOAL_WATCHED_US },
  ];
}

async function calls(files: FileSystem, proc: Process): Promise<void> {
  for (let i = 0; i < TURNS; i++) {
    const fd = await files.open(proc, NULL, O_RDWR);
    await files.write(proc, fd, "input");
    await files.read(proc, fd, 65_536);
    await files.close(proc, fd);
  }
}

/** The same four on the file itself. */
async function bareCalls(proc: Process): Promise<void> {
  for (let i = 0; i < TURNS; i++) {
    const file = await nullFile();
    await file.write("input", proc.signal);
    await file.read(65_536, proc.signal);
    await file.close();
  }
}

/** With a tracer that makes of each event what the server sends of it. */
async function watchedCalls(bench: BenchKernel, proc: Process): Promise<void> {
  const channel = bench.kernel.attachDebug(proc.pid);
  let seen = 0;
  const reading = (async () => {
    for await (const event of channel) {
      JSON.stringify({ type: "syscall_event", payload: { ...event, uuid: proc.uuid } });
      seen++;
    }
  })();
  await calls(bench.kernel.files, proc);
  channel.end();
  await reading;
  if (seen + channel.dropped !== CALLS * TURNS) {
    throw new Error(`The tracer saw ${seen} events and missed ${channel.dropped} of ${CALLS * TURNS}.`);
  }
}

/** Medians in µs per syscall, of sides that are run in turns. */
async function inTurns<K extends string>(
  rounds: number,
  sides: Record<K, () => Promise<void>>,
): Promise<Record<K, number>> {
  const names = Object.keys(sides) as K[];
  const taken = Object.fromEntries(names.map((name) => [name, []])) as unknown as Record<K, number[]>;
  for (let round = -WARM_UP; round < rounds; round++) {
    for (const name of names) {
      const start = performance.now();
      await sides[name]();
      if (round >= 0) taken[name].push(((performance.now() - start) * 1000) / (TURNS * CALLS));
    }
  }
  return Object.fromEntries(names.map((name) => [name, median(taken[name])])) as Record<K, number>;
}
