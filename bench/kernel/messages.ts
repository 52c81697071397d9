import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { AppendLog } from "../../src/store/files/append-log.ts";
import type { Figure } from "../figure.ts";
import { mib } from "../figure.ts";
import { median } from "../measure.ts";
import { BenchKernel } from "./bench-kernel.ts";

/** Pairs of processes, and how often each goes to and fro in one measurement. */
const CROWDS = [
  { pairs: 1, trips: 256 },
  { pairs: 64, trips: 16 },
];
const CHUNK = new Uint8Array(64 * 1024);
const CHUNKS = 1_024;
const TEXT = "a message of a hundred bytes ".padEnd(100, ".");

/** Round trips between two processes, each message durable before it is acknowledged; and bytes through a pipe. */
export async function messages(rounds: number): Promise<Figure[]> {
  await using bench = new BenchKernel();
  const figures: Figure[] = [];
  for (const { pairs, trips } of CROWDS) {
    const kernel: number[] = [];
    const disk: number[] = [];
    for (let round = -1; round < rounds; round++) {
      const taken = { disk: await durableLines(pairs, trips), kernel: await roundTrips(bench, pairs, trips) };
      if (round < 0) continue;
      kernel.push(taken.kernel);
      disk.push(taken.disk);
    }
    figures.push({
      what: `message round trips, ${pairs === 1 ? "one pair" : `${pairs} pairs at once`}`,
      value: median(kernel),
      unit: "/s",
      floor: { name: "their lines made durable", value: median(disk) },
    });
  }
  return [...figures, await pipe(bench, rounds)];
}

/** Round trips per second of this many pairs of processes, once all exist. */
async function roundTrips(bench: BenchKernel, pairs: number, trips: number): Promise<number> {
  const { ipc } = bench.kernel;
  const go = Promise.withResolvers<void>();
  const began: Promise<unknown>[] = [];
  const ended: Promise<void>[] = [];
  const partner = async (first: boolean, to: Promise<number>): Promise<number> => {
    const up = Promise.withResolvers<number>();
    ended.push(
      bench.as(async (proc) => {
        up.resolve(proc.pid);
        const other = await to;
        await go.promise;
        for (let i = 0; i < trips; i++) {
          if (first) await ipc.send(proc.pid, other, TEXT);
          await ipc.recv(proc.pid);
          if (!first) await ipc.send(proc.pid, other, TEXT);
        }
      }),
    );
    return await up.promise;
  };
  for (let i = 0; i < pairs; i++) {
    const one = Promise.withResolvers<number>();
    const other = partner(false, one.promise);
    one.resolve(partner(true, other));
    began.push(one.promise, other);
  }
  await Promise.all(began);
  const start = performance.now();
  go.resolve();
  await Promise.all(ended);
  return (pairs * trips * 1000) / (performance.now() - start);
}

/** The same without processes: a line in one file, then one in another, each synced before the next. */
async function durableLines(pairs: number, trips: number): Promise<number> {
  const dir = mkdtempSync(join(tmpdir(), "rnix-bench-lines-"));
  const line = JSON.stringify({ v: 1, seq: 1, kind: "message", from_pid: 1, data: TEXT });
  const start = performance.now();
  const both = Array.from({ length: pairs }, async (_, pair) => {
    const logs = ["a", "b"].map((name) => new AppendLog(join(dir, `${pair}${name}`), name));
    for (let i = 0; i < trips; i++) {
      for (const log of logs) {
        log.append(line);
        await log.sync();
      }
    }
  });
  await Promise.all(both);
  const rate = (pairs * trips * 1000) / (performance.now() - start);
  rmSync(dir, { recursive: true });
  return rate;
}

/** One process writes what another one reads. The floor copies as often: in, and out. */
async function pipe(bench: BenchKernel, rounds: number): Promise<Figure> {
  const through: number[] = [];
  const copied: number[] = [];
  for (let round = -1; round < rounds; round++) {
    const taken = { copied: copies(), through: await throughPipe(bench) };
    if (round < 0) continue;
    through.push(taken.through);
    copied.push(taken.copied);
  }
  return {
    what: "bytes through a pipe",
    value: median(through),
    unit: "MiB/s",
    floor: { name: "copied in and out", value: median(copied) },
  };
}

async function throughPipe(bench: BenchKernel): Promise<number> {
  const { ipc, files } = bench.kernel;
  return await bench.as(async (reader) => {
    const { promise, resolve } = Promise.withResolvers<number>();
    const start = performance.now();
    const writing = bench.as(async (writer) => {
      const { writeFd, readFd } = await ipc.pipe(writer.pid, reader.pid);
      resolve(readFd);
      for (let i = 0; i < CHUNKS; i++) await files.write(writer, writeFd, CHUNK);
      await files.close(writer, writeFd);
    });
    const fd = await promise;
    let bytes = 0;
    for (;;) {
      const piece = await files.read(reader, fd, CHUNK.length);
      if (piece.length === 0) break;
      bytes += piece.length;
    }
    await writing;
    return (mib(bytes) * 1000) / (performance.now() - start);
  });
}

function copies(): number {
  const ring = new Uint8Array(CHUNK.length);
  const start = performance.now();
  let bytes = 0;
  for (let i = 0; i < CHUNKS; i++) {
    ring.set(CHUNK);
    bytes += ring.slice().length;
  }
  return (mib(bytes) * 1000) / (performance.now() - start);
}
