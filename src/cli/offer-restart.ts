import { SyscallError } from "../plugin/index.ts";
import { agreed, isAskable } from "./ask.ts";
import type { Io } from "./io.ts";
import { stopDaemon } from "./stop-daemon.ts";

/**
 * Where the daemon is of another version and a person sits at the terminal: offers to make room for one of ours,
 * and returns when there is. Throws what was thrown where nobody wants that, and for everything else.
 */
export async function offerRestart(io: Io, thrown: unknown): Promise<void> {
  if (!isOtherVersion(thrown) || io.env.RNIX_UNIT || !isAskable(io)) throw thrown;
  io.stderr.write(`${thrown.message}\n`);
  if (!(await agreed(io, "Restart it now?"))) throw thrown;
  const stopped = await stopDaemon(io, { restart: true });
  if (stopped && !stopped.gone) throw thrown;
  // Also for a command that would have started none: what was at work goes on.
  await (await io.session())?.close();
}

function isOtherVersion(thrown: unknown): thrown is SyscallError {
  if (!(thrown instanceof SyscallError)) return false;
  const { cause } = thrown;
  return typeof cause === "object" && cause !== null && "code" in cause && cause.code === "VERSION";
}
