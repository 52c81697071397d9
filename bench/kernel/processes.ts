import type { RunWriter } from "../../src/store/runs/run-store.ts";
import type { Figure } from "../figure.ts";
import { median } from "../measure.ts";
import { BenchKernel, done } from "./bench-kernel.ts";

const SIZES = [100, 1_000, 10_000];
/** Of cost per process, from the fewest to the most. */
const GOAL_FLAT = 1.2;

/** Per process. CPU is in user mode: that of the system is the disk's, and moves with every writer. */
interface Cost {
  wallMs: number;
  cpuMs: number;
}

/**
 * What a process costs from its spawn to its reap: an agent of one step, with its records durable on disk, all
 * of a crowd alive before the first one ends. The floor are the records alone.
 */
export async function processes(rounds: number): Promise<Figure[]> {
  const sample = await sampleRecords();
  await crowd(1_000); // Until the compiler is done with it.
  const costs = new Map<number, { agent: Cost; floor: Cost }>();
  for (const size of SIZES) {
    const times = Math.max(1, Math.round((rounds * 100) / size));
    const taken: { agent: Cost; floor: Cost }[] = [];
    for (let i = 0; i < times; i++)
      taken.push({ floor: await recordsAlone(size, sample), agent: await crowd(size) });
    const middle = (side: "agent" | "floor", what: keyof Cost) => median(taken.map((one) => one[side][what]));
    costs.set(size, {
      agent: { wallMs: middle("agent", "wallMs"), cpuMs: middle("agent", "cpuMs") },
      floor: { wallMs: middle("floor", "wallMs"), cpuMs: middle("floor", "cpuMs") },
    });
  }
  const flat = (what: keyof Cost): number =>
    (costs.get(10_000)?.agent[what] ?? Number.NaN) / (costs.get(100)?.agent[what] ?? Number.NaN);
  return [
    ...[...costs].flatMap(([size, { agent, floor }]): Figure[] => {
      const row = (what: string, key: keyof Cost): Figure => ({
        what: `a process from spawn to reap, ${size.toLocaleString("en")} at once, ${what}`,
        value: agent[key],
        unit: "ms",
        floor: { name: "its records alone", value: floor[key] },
      });
      return [row("wall", "wallMs"), row("CPU", "cpuMs")];
    }),
    { what: "one of 10,000 to one of 100, wall", value: flat("wallMs"), unit: "×", goal: GOAL_FLAT },
    { what: "one of 10,000 to one of 100, CPU", value: flat("cpuMs"), unit: "×", goal: GOAL_FLAT },
  ];
}

async function crowd(size: number): Promise<Cost> {
  const all = Promise.withResolvers<void>();
  await using bench = new BenchKernel(async () => {
    await all.promise;
    return done;
  });
  return await costOf(size, async () => {
    const pids: number[] = [];
    for (let i = 0; i < size; i++) pids.push(await bench.agent());
    all.resolve();
    for (const exit of await Promise.all(pids.map((pid) => bench.kernel.processes.wait(pid)))) {
      if (exit.code !== 0) throw exit.error ?? new Error(`A process ended as ${exit.reason}.`);
    }
  });
}

/** What one process leaves on disk, in the order in which it was written. */
type Records = (writer: RunWriter) => void;

async function sampleRecords(): Promise<Records> {
  await using bench = new BenchKernel();
  const pid = await bench.agent();
  const { uuid } = bench.kernel.processes.info(pid);
  await bench.kernel.processes.wait(pid);
  const { runs } = bench;
  const info = await runs.info(uuid);
  const meta = await runs.meta(uuid);
  const [step] = (await runs.steps(uuid)).records;
  const events = (await runs.events(uuid)).records;
  if (!info || !meta || !step) throw new Error("The sample has left no records.");
  return (writer) => {
    for (const event of events) writer.event(event);
    writer.meta(meta);
    writer.info(info);
    writer.journal({ ...step, t: "answer", message: { role: "assistant", content: step.raw_response } });
    writer.step(step);
    writer.info(info);
  };
}

async function recordsAlone(size: number, write: Records): Promise<Cost> {
  await using bench = new BenchKernel();
  return await costOf(size, async () => {
    const writers = Array.from({ length: size }, () => bench.runs.create(Bun.randomUUIDv7()));
    for (const writer of writers) write(writer);
    await Promise.all(writers.map((writer) => writer.close()));
  });
}

async function costOf(size: number, run: () => Promise<void>): Promise<Cost> {
  Bun.gc(true);
  const cpu = process.cpuUsage();
  const start = performance.now();
  await run();
  const wallMs = performance.now() - start;
  return { wallMs: wallMs / size, cpuMs: process.cpuUsage(cpu).user / 1000 / size };
}
