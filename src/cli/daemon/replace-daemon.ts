/** Replaces a daemon of another version: without a question if it is idle, else with a yes at the terminal. */

import { SyscallError } from "../../plugin/index.ts";
import { type Io, isAskable } from "../io.ts";
import { agreed } from "../questions/answer-questions.ts";
import { stopDaemon } from "./stop-daemon.ts";

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
