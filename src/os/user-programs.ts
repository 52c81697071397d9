/** Programs that the user runs from a command's terminal: an editor in its place, or a short one for its output. */

import { leaders } from "./leaders.ts";
import { signal } from "./signal.ts";
import { spawnError } from "./spawn-error.ts";

type Environment = Record<string, string | undefined>;

interface BoundedRun {
  cwd: string;
  env: Environment;
  timeoutMs: number;
  maxBytes: number;
  /** In a session of its own: what it leaves behind is an orphan of a program, which a kernel reaps. */
  leavesOrphans?: boolean;
}

/** Runs a program at this terminal until it ends. Returns its exit code; null when a signal ended it. */
export async function runAtTerminal(
  argv: readonly string[],
  o: { cwd: string; env: Environment },
): Promise<number | null> {
  const started = start(argv, { ...o, stdin: "inherit", stdout: "inherit", stderr: "inherit" });
  await started.exited;
  return started.exitCode;
}

/** The output of a program that ends by itself; null when it fails, takes longer or prints more than allowed. */
export async function outputOf(argv: readonly string[], o: BoundedRun): Promise<Uint8Array | null> {
  const started = start(argv, { ...bounded(o), stdout: "pipe", stderr: "ignore" });
  const output = new Uint8Array(await new Response(started.stdout).arrayBuffer());
  await started.exited;
  return started.exitCode === 0 ? output : null;
}

/** Gives a program a text. Returns false when it is not there, fails or takes longer. */
export async function runForInput(
  argv: readonly string[],
  { cwd, env, timeoutMs, input }: Omit<BoundedRun, "maxBytes"> & { input: string },
): Promise<boolean> {
  const program = Bun.which(argv[0] ?? "", { PATH: env.PATH ?? "" });
  if (program === null) return false;
  const streams = { stdin: Buffer.from(input), stdout: "ignore", stderr: "ignore" } as const;
  const started = start([program, ...argv.slice(1)], { cwd, env, timeout: timeoutMs, ...streams });
  await started.exited;
  return started.exitCode === 0;
}

/** The exit code and the output, with its errors, of a program that ends by itself; null when it is not there. */
export async function resultOf(
  argv: readonly string[],
  o: BoundedRun,
): Promise<{ code: number | null; output: string } | null> {
  const program = Bun.which(argv[0] ?? "", { PATH: o.env.PATH ?? "" });
  if (program === null) return null;
  const streams = { stdout: "pipe", stderr: "pipe", detached: o.leavesOrphans } as const;
  const started = start([program, ...argv.slice(1)], { ...bounded(o), ...streams });
  if (o.leavesOrphans) leaders.set(started.pid, null);
  void started.exited.then(() => leaders.delete(started.pid));
  const texts = await Promise.all([started.stdout, started.stderr].map((one) => new Response(one).text()));
  await started.exited;
  return { code: started.exitCode, output: texts.join("").trim() };
}

export interface RunningShell {
  /** Its exit code, when it has ended; null when a signal ended it. Its programs in the background may live on. */
  readonly done: Promise<number | null>;
  /** Ends it with all its programs: SIGTERM, then SIGKILL. */
  end(): void;
}

/** How long a command that was asked to end may take, and how long the end of its output is waited for. */
const GRACE_MS = 2000;
const REST_MS = 200;

/** Runs a line in the user's shell, without a terminal and without input. `onText` gets its output and its errors. */
export function startShell(
  line: string,
  { cwd, env, onText }: { cwd: string; env: Environment; onText(text: string): void },
): RunningShell {
  const argv = [env.SHELL || "/bin/sh", "-c", line];
  const streams = { stdin: "ignore", stdout: "pipe", stderr: "pipe" } as const;
  // A session of its own, so that its programs can be ended together.
  const started = start(argv, { cwd, env, ...streams, detached: true });
  const reading = [started.stdout, started.stderr].map(async (stream) => {
    const decoder = new TextDecoder();
    for await (const bytes of stream) onText(decoder.decode(bytes, { stream: true }));
  });
  const done = started.exited.then(async () => {
    await Promise.race([Promise.allSettled(reading), Bun.sleep(REST_MS)]);
    return started.exitCode;
  });
  const end = (): void => {
    signal(-started.pid, "SIGTERM");
    setTimeout(() => signal(-started.pid, "SIGKILL"), GRACE_MS).unref();
  };
  return { done, end };
}

function bounded({ cwd, env, timeoutMs, maxBytes }: BoundedRun) {
  const limits = { timeout: timeoutMs, killSignal: "SIGKILL", maxBuffer: maxBytes } as const;
  return { cwd, env, stdin: "ignore", ...limits } as const;
}

/** Fails with NOT_FOUND or another code that says why the program could not be started. */
function start<
  In extends Bun.SpawnOptions.Writable,
  Out extends Bun.SpawnOptions.Readable,
  Err extends Bun.SpawnOptions.Readable,
>(
  argv: readonly string[],
  options: Bun.SpawnOptions.SpawnOptions<In, Out, Err> & { cwd: string; env: Environment },
): Bun.Subprocess<In, Out, Err> {
  try {
    return Bun.spawn([...argv], options);
  } catch (cause) {
    throw spawnError(cause, argv, options.cwd, options.env.PATH);
  }
}
