/** Programs that the user runs from a command's terminal: an editor in its place, or a short one for its output. */

import { SyscallError } from "../plugin/index.ts";
import { spawnError } from "./spawn-error.ts";

type Environment = Record<string, string | undefined>;

/** Runs a program at this terminal until it ends. Returns its exit code; null when a signal ended it. */
export async function runAtTerminal(
  argv: readonly string[],
  o: { cwd: string; env: Environment },
): Promise<number | null> {
  const started = start(argv, o.cwd, o.env, () =>
    Bun.spawn([...argv], { cwd: o.cwd, env: o.env, stdin: "inherit", stdout: "inherit", stderr: "inherit" }),
  );
  await started.exited;
  return started.exitCode;
}

/** The output of a program that ends by itself; null when it fails, takes longer or prints more than allowed. */
export async function outputOf(
  argv: readonly string[],
  o: { cwd: string; env: Environment; timeoutMs: number; maxBytes: number },
): Promise<Uint8Array | null> {
  const started = start(argv, o.cwd, o.env, () =>
    Bun.spawn([...argv], {
      cwd: o.cwd,
      env: o.env,
      stdin: "ignore",
      stdout: "pipe",
      stderr: "ignore",
      timeout: o.timeoutMs,
      killSignal: "SIGKILL",
      maxBuffer: o.maxBytes,
    }),
  );
  const output = new Uint8Array(await new Response(started.stdout).arrayBuffer());
  await started.exited;
  return started.exitCode === 0 ? output : null;
}

/** Fails with NOT_FOUND or another code that says why the program could not be started. */
function start<T>(argv: readonly string[], cwd: string, env: Environment, begin: () => T): T {
  try {
    return begin();
  } catch (cause) {
    if (cause instanceof SyscallError) throw cause;
    throw spawnError(cause, [...argv], cwd, env.PATH);
  }
}
