import { readdirSync, readFileSync } from "node:fs";

/** One finished command: how long it took, the CPU it used, and the most memory it had. */
export interface Timing {
  wallMs: number;
  cpuMs: number;
  peakBytes: number;
  stdout: string;
}

/** Runs a command to its end. A command that fails ends the benchmark: its figures would mean nothing. */
export async function timed(argv: string[], env: Record<string, string>, cwd: string): Promise<Timing> {
  const start = performance.now();
  const child = Bun.spawn(argv, { env, cwd, stdin: "ignore", stdout: "pipe", stderr: "pipe" });
  const [stdout, stderr, code] = await Promise.all([
    new Response(child.stdout).text(),
    new Response(child.stderr).text(),
    child.exited,
  ]);
  const wallMs = performance.now() - start;
  if (code !== 0) throw new Error(`${argv.join(" ")} ended with ${code}: ${stderr || stdout}`);
  const usage = child.resourceUsage();
  return {
    wallMs,
    cpuMs: Number(usage?.cpuTime.total ?? 0n) / 1000,
    peakBytes: usage?.maxRSS ?? 0,
    stdout,
  };
}

/** CPU in ms that a running process and its threads have used so far; 0 where the system does not tell. */
export function cpuOf(pid: number): number {
  try {
    return readdirSync(`/proc/${pid}/task`)
      .map((task) => Number(readFileSync(`/proc/${pid}/task/${task}/schedstat`, "utf8").split(" ")[0]) / 1e6)
      .reduce((sum, ms) => sum + ms, 0);
  } catch {
    return 0;
  }
}

/** Resident memory of a running process, in bytes: now, and at its peak. */
export function memoryOf(pid: number): { now: number; peak: number } {
  const status = readFileSync(`/proc/${pid}/status`, "utf8");
  const kib = (name: string) => Number(new RegExp(`^${name}:\\s+(\\d+)`, "m").exec(status)?.[1] ?? 0) * 1024;
  return { now: kib("VmRSS"), peak: kib("VmHWM") };
}

export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  const high = sorted[middle] ?? Number.NaN;
  return sorted.length % 2 === 1 ? high : ((sorted[middle - 1] ?? Number.NaN) + high) / 2;
}

/** Runs the sides in turns, so that a noisy minute of the machine meets all of them alike. */
export async function interleaved<K extends string>(
  rounds: number,
  sides: Record<K, () => Promise<Timing & { extraCpuMs?: number }>>,
): Promise<Record<K, { wallMs: number; cpuMs: number; peakBytes: number }>> {
  const names = Object.keys(sides) as K[];
  const all = new Map<K, (Timing & { extraCpuMs?: number })[]>(names.map((name) => [name, []]));
  for (const name of names) await sides[name]();
  for (let round = 0; round < rounds; round++) {
    for (const name of names) all.get(name)?.push(await sides[name]());
  }
  return Object.fromEntries(
    names.map((name) => {
      const timings = all.get(name) ?? [];
      return [
        name,
        {
          wallMs: median(timings.map((timing) => timing.wallMs)),
          cpuMs: median(timings.map((timing) => timing.cpuMs + (timing.extraCpuMs ?? 0))),
          peakBytes: median(timings.map((timing) => timing.peakBytes)),
        },
      ];
    }),
  ) as Record<K, { wallMs: number; cpuMs: number; peakBytes: number }>;
}
