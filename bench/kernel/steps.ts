import nodeFs, { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Device, LLMEvent } from "../../src/plugin/index.ts";
import type { Figure } from "../figure.ts";
import { median } from "../measure.ts";
import { BenchKernel, done, nullFile } from "./bench-kernel.ts";

const CROWDS = [1, 10, 100];
/** Of each process; its last one is its answer. */
const STEPS = 50;
/** Measured rounds of the crowd of one; of a larger one fewer. */
const ROUNDS = 5;

/** A tool that does nothing, and may not be called twice: its call is durable before it is made. */
const act: Device = {
  tools: [{ name: "Act", description: "Acts.", input: { type: "object" } }],
  factory: () => nullFile(),
};

function answer(nth: number): readonly LLMEvent[] {
  if (nth >= STEPS) return done;
  return [
    { type: "tool_call", call: { id: `call-${nth}`, name: "Act", input: { n: nth } } },
    { type: "usage", usage: { input_tokens: 10, output_tokens: 5, cached_tokens: 0 } },
    { type: "stop", reason: "tool_calls" },
  ];
}

/**
 * Steps recorded per second, each with a call that has an effect: its answer and the call's start are durable before
 * it, its end and the step's record written behind it. The floor writes as many bytes in the same order.
 */
export async function steps(rounds: number): Promise<Figure[]> {
  const bytes = await bytesOfStep();
  const figures: Figure[] = [];
  for (const crowd of CROWDS) {
    const kernel: number[] = [];
    const disk: number[] = [];
    for (let round = -1; round < Math.min(rounds, ROUNDS); round++) {
      const taken = { disk: await bare(crowd, bytes), kernel: await recorded(crowd) };
      if (round < 0) continue;
      disk.push(taken.disk);
      kernel.push(taken.kernel);
    }
    figures.push({
      what: `steps recorded, ${crowd === 1 ? "1 process" : `${crowd} processes`}`,
      value: median(kernel),
      unit: "/s",
      floor: { name: "append and fdatasync", value: median(disk) },
    });
  }
  return figures;
}

async function recorded(crowd: number): Promise<number> {
  await using bench = newBench();
  return await perSecond(crowd, async () => {
    const pid = await bench.agent({ concurrency: crowd });
    const exit = await bench.kernel.processes.wait(pid);
    if (exit.code !== 0) throw exit.error ?? new Error(`A process ended as ${exit.reason}.`);
  });
}

/** What a process writes in one step, on the average. */
async function bytesOfStep(): Promise<number> {
  await using bench = newBench();
  const pid = await bench.agent();
  const { uuid } = bench.kernel.processes.info(pid);
  await bench.kernel.processes.wait(pid);
  const size = (file: string): number => nodeFs.statSync(join(bench.runs.dir(uuid), file)).size;
  // The journal, which is emptied at the end, has held each call once more.
  return (2 * size("steps.jsonl") + size("events.jsonl")) / STEPS;
}

async function bare(crowd: number, bytes: number): Promise<number> {
  const dir = mkdtempSync(join(tmpdir(), "rnix-bench-steps-"));
  const quarter = Buffer.alloc(Math.ceil(bytes / 4), "x");
  try {
    let files = 0;
    return await perSecond(crowd, async () => {
      const fd = nodeFs.openSync(join(dir, String(++files)), "a");
      for (let step = 0; step < STEPS; step++) {
        nodeFs.writeSync(fd, quarter);
        nodeFs.writeSync(fd, quarter);
        await new Promise<void>((resolve, reject) =>
          nodeFs.fdatasync(fd, (error) => (error ? reject(error) : resolve())),
        );
        nodeFs.writeSync(fd, quarter);
        nodeFs.writeSync(fd, quarter);
      }
      nodeFs.closeSync(fd);
    });
  } finally {
    rmSync(dir, { recursive: true, force: true });
  }
}

async function perSecond(crowd: number, process: () => Promise<void>): Promise<number> {
  Bun.gc(true);
  const start = performance.now();
  await Promise.all(Array.from({ length: crowd }, process));
  return (crowd * STEPS * 1000) / (performance.now() - start);
}

function newBench(): BenchKernel {
  return new BenchKernel((_signal, nth) => answer(nth), { "/dev/act": act });
}
