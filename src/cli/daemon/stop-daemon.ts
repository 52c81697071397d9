/** Stops the daemon and waits for its end, and replaces one of another version. */

import { SyscallError } from "../../plugin/index.ts";
import { type Io, isAskable } from "../io.ts";
import { formatElapsed, plural } from "../output/format.ts";
import { agreed } from "../questions/answer-questions.ts";

/** How long to wait for the daemon to end, after the drain. */
const STOP_MS = 30_000;
const LOOK_MS = 25;
/** After this time, the command prints what it waits for. */
const SAY_MS = 500;

/** Stops the daemon of any version and waits for its end. Returns null if none runs; `gone` is false if it still runs. */
export async function stopDaemon(
  io: Io,
  how: { now?: boolean; restart?: boolean },
): Promise<{ pid: number; gone: boolean } | null> {
  const session = await io.session({ onlyRunning: true, anyVersion: true });
  if (session === null) return null;
  let pid: number;
  let draining: { calls: number; ms: number } | undefined;
  try {
    const wire = await session.connect();
    const asked = { now: how.now || undefined, restart: how.restart || undefined };
    ({ pid, draining } = await wire.request("shutdown", asked));
  } finally {
    await session.close();
  }
  const { hasEnded } = await import("../../client/daemon.ts");
  const waits = draining && io.timer(SAY_MS, () => io.stderr.write(waitingFor(draining)));
  try {
    // The daemon stops answering before it has ended its programs and released its files.
    return { pid, gone: await waitFor(io, STOP_MS + (draining?.ms ?? 0), () => hasEnded(pid)) };
  } finally {
    waits?.cancel();
  }
}

function waitingFor({ calls, ms }: { calls: number; ms: number }): string {
  return `waiting up to ${formatElapsed(ms)} for ${plural(calls, "tool call")} to finish (rnix daemon stop --now does not wait)\n`;
}

async function waitFor(io: Io, ms: number, condition: () => Promise<boolean>): Promise<boolean> {
  let late = false;
  const deadline = io.timer(ms, () => {
    late = true;
  });
  try {
    while (!late) {
      if (await condition()) return true;
      await new Promise<void>((resolve) => void io.timer(LOOK_MS, resolve));
    }
    return false;
  } finally {
    deadline.cancel();
  }
}

/**
 * If the daemon has another version, restarts it as this version: at once if it has no process, so that no script fails
 * after an update; else if a person at the terminal agrees. Returns after the restart; rethrows `thrown`
 * without that yes, in a run, or for another error.
 */
export async function replaceDaemon(io: Io, thrown: unknown): Promise<void> {
  if (!isOtherVersion(thrown) || io.env.RNIX_UNIT) throw thrown;
  if (!(await isIdle(io))) {
    if (!isAskable(io)) throw thrown;
    io.stderr.write(`${thrown.message}\n`);
    if (!(await agreed(io, "Restart it now?"))) throw thrown;
  }
  const stopped = await stopDaemon(io, { restart: true });
  if (stopped && !stopped.gone) throw thrown;
  // Start a daemon even for a command that needs none, so that the suspended runs resume.
  await (await io.session())?.close();
}

async function isIdle(io: Io): Promise<boolean> {
  const session = await io.session({ onlyRunning: true, anyVersion: true });
  if (session === null) return true;
  try {
    const wire = await session.connect();
    // Another version may answer with other fields: then it is not known to be idle.
    return (await wire.request("daemon_status", {})).processes === 0;
  } finally {
    await session.close();
  }
}

function isOtherVersion(thrown: unknown): thrown is SyscallError {
  if (!(thrown instanceof SyscallError)) return false;
  const { cause } = thrown;
  return typeof cause === "object" && cause !== null && "code" in cause && cause.code === "VERSION";
}
