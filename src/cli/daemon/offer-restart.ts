/** Offers to restart a daemon of another version. */

import { SyscallError } from "../../plugin/index.ts";
import { type Io, isAskable } from "../io.ts";
import { agreed } from "../questions/answer-questions.ts";
import { stopDaemon } from "./stop-daemon.ts";

/**
 * If the daemon has another version and a person is at the terminal, offers to restart it as this version. Returns
 * after the restart; rethrows `thrown` if the person declines or the error is another one.
 */
export async function offerRestart(io: Io, thrown: unknown): Promise<void> {
  if (!isOtherVersion(thrown) || io.env.RNIX_UNIT || !isAskable(io)) throw thrown;
  io.stderr.write(`${thrown.message}\n`);
  if (!(await agreed(io, "Restart it now?"))) throw thrown;
  const stopped = await stopDaemon(io, { restart: true });
  if (stopped && !stopped.gone) throw thrown;
  // Start a daemon even for a command that needs none, so that the suspended runs resume.
  await (await io.session())?.close();
}

function isOtherVersion(thrown: unknown): thrown is SyscallError {
  if (!(thrown instanceof SyscallError)) return false;
  const { cause } = thrown;
  return typeof cause === "object" && cause !== null && "code" in cause && cause.code === "VERSION";
}
