import { z } from "zod";
import { SyscallError } from "../../plugin/index.ts";
import { method } from "./method.ts";

/**
 * Answers, and then ends the server (seeds 5.6): running processes are suspended when their tool calls under way have
 * had their time, with `now` killed, and with `restart` resumed by the next server. From inside a process's
 * shell it is refused: an agent does not stop what holds it.
 */
export const shutdown = method({
  payload: () => z.object({ now: z.boolean().optional(), restart: z.boolean().optional() }),
  closes: true,
  handle(
    { now = false, restart },
    { host },
    caller,
  ): { pid: number; draining?: { calls: number; ms: number } } {
    const unit = caller.unit();
    if (unit !== undefined) {
      throw new SyscallError(
        "PERMISSION",
        `The daemon can't be stopped from inside a run (${unit}). Stop it from your own terminal.`,
      );
    }
    const draining = host.stop(now, { restart });
    return { pid: process.pid, ...(draining && { draining }) };
  },
});
