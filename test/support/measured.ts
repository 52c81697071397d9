import { readFileSync } from "node:fs";

interface Measured {
  answer: string;
  /** What the process held at most beyond what it held before the work. */
  peakBytes: number;
}

/** Runs a program that ends in `measure` in a process of its own, where the garbage of no other test counts. */
export async function measured(program: string, ...args: string[]): Promise<Measured> {
  const child = Bun.spawn([process.execPath, program, ...args], { stdout: "pipe", stderr: "pipe" });
  const [out, err, code] = await Promise.all([child.stdout.text(), child.stderr.text(), child.exited]);
  if (code !== 0) throw new Error(`${program} ended with ${code}: ${err}`);
  return JSON.parse(out);
}

/** Runs the work and prints its result and its peak memory. */
export async function measure(work: () => Promise<string>): Promise<void> {
  const before = process.memoryUsage.rss();
  const answer = await work();
  const result: Measured = { answer, peakBytes: peak() - before };
  process.stdout.write(JSON.stringify(result));
}

/** On Linux of this program alone: there maxRSS also counts what its parent held when it was forked. */
function peak(): number {
  if (process.platform !== "linux") return process.resourceUsage().maxRSS * 1024;
  const kib = /^VmHWM:\s+(\d+) kB$/m.exec(readFileSync("/proc/self/status", "latin1"))?.[1];
  if (kib === undefined) throw new Error("/proc/self/status names no peak");
  return Number(kib) * 1024;
}
