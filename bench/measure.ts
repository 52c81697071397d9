import { readdirSync, readFileSync } from "node:fs";

/** A command to measure: all is passed to it, it takes nothing from the benchmark's own environment. */
export interface Command {
  argv: string[];
  env: Record<string, string>;
  cwd: string;
}

/** One finished command. */
export interface Timing {
  wallMs: number;
  /** The command's own, and that of whatever else it made work. */
  cpuMs: number;
  stdout: string;
}

/** A command that is not done by then is a fault. */
const DEADLINE_MS = 60_000;

/** Runs a command to its end. One that fails ends the benchmark: its figures would mean nothing. */
export async function timed(command: Command, deadlineMs = DEADLINE_MS): Promise<Timing> {
  const start = performance.now();
  const child = spawn(command, deadlineMs);
  const [stdout, stderr, code] = await Promise.all([
    new Response(child.stdout).text(),
    new Response(child.stderr).text(),
    child.exited,
  ]);
  const wallMs = performance.now() - start;
  if (code !== 0)
    throw new Error(`${command.argv.join(" ")} ended with ${child.signalCode ?? code}: ${stderr || stdout}`);
  return { wallMs, cpuMs: Number(child.resourceUsage()?.cpuTime.total ?? 0n) / 1000, stdout };
}

/**
 * The most memory a command had, in bytes. Looked at over and over while it runs, so never in a round that is
 * timed. What the system tells at the end would be useless: it counts in what the forked parent had.
 */
export async function peakOf(command: Command): Promise<number> {
  const child = spawn(command);
  let peak = 0;
  for (let now = 1; now > 0; ) {
    now = memoryOf(child.pid).peak;
    peak = Math.max(peak, now);
    await new Promise((resolve) => setImmediate(resolve));
  }
  await Promise.all([new Response(child.stdout).text(), new Response(child.stderr).text(), child.exited]);
  return peak;
}

function spawn({ argv, env, cwd }: Command, deadlineMs = DEADLINE_MS) {
  return Bun.spawn(argv, {
    env,
    cwd,
    stdin: "ignore",
    stdout: "pipe",
    stderr: "pipe",
    timeout: deadlineMs,
    killSignal: "SIGKILL",
  });
}

/** CPU in ms that a running process has used so far: its threads, and the programs that it has seen to the end. */
export function cpuOf(pid: number): number {
  const threads = readdirSync(`/proc/${pid}/task`)
    .map((task) => Number(readFileSync(`/proc/${pid}/task/${task}/schedstat`, "latin1").split(" ")[0]) / 1e6)
    .reduce((sum, ms) => sum + ms, 0);
  const stat = readFileSync(`/proc/${pid}/stat`, "latin1");
  // cutime and cstime of proc(5), in hundredths of a second; counted from behind the name, which may hold anything.
  const [user = 0, system = 0] = stat
    .slice(stat.lastIndexOf(")") + 2)
    .split(" ")
    .slice(13, 15)
    .map(Number);
  return threads + (user + system) * 10;
}

/** Waits until a process does nothing: what it tidies up behind one command would slow down the next that is timed. */
export async function rest(pid: number): Promise<void> {
  let before = Number.NEGATIVE_INFINITY;
  for (let look = 0; look < MOST_LOOKS; look++) {
    const now = cpuOf(pid);
    if (now === before) return;
    before = now;
    await Bun.sleep(LOOK_MS);
  }
}

const LOOK_MS = 10;
const MOST_LOOKS = 50;

/** Resident memory of a process in bytes, now and at its peak; 0 when it has ended. */
export function memoryOf(pid: number): { now: number; peak: number } {
  let status: string;
  try {
    status = readFileSync(`/proc/${pid}/status`, "latin1");
  } catch {
    return { now: 0, peak: 0 };
  }
  const bytes = (name: string) =>
    Number(new RegExp(`^${name}:\\s+(\\d+)`, "m").exec(status)?.[1] ?? 0) * 1024;
  return { now: bytes("VmRSS"), peak: bytes("VmHWM") };
}

export function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  const middle = sorted.length >> 1;
  const high = sorted[middle] ?? Number.NaN;
  return sorted.length % 2 === 1 ? high : ((sorted[middle - 1] ?? Number.NaN) + high) / 2;
}

/** Medians of several sides, run in turns, so that a noisy minute of the machine meets all of them alike. */
export async function interleaved<K extends string>(
  rounds: number,
  sides: Record<K, () => Promise<Omit<Timing, "stdout">>>,
): Promise<Record<K, { wallMs: number; cpuMs: number }>> {
  const names = Object.keys(sides) as K[];
  const wall = Object.fromEntries(names.map((name) => [name, []])) as unknown as Record<K, number[]>;
  const cpu = Object.fromEntries(names.map((name) => [name, []])) as unknown as Record<K, number[]>;
  // One round that is not counted: files come into the cache, the daemon into its stride.
  for (let round = -1; round < rounds; round++) {
    for (const name of names) {
      const { wallMs, cpuMs } = await sides[name]();
      if (round < 0) continue;
      wall[name].push(wallMs);
      cpu[name].push(cpuMs);
    }
  }
  return Object.fromEntries(
    names.map((name) => [name, { wallMs: median(wall[name]), cpuMs: median(cpu[name]) }]),
  ) as Record<K, { wallMs: number; cpuMs: number }>;
}
