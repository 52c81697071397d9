/** The method shutdown. */

import { z } from "zod";
import { method } from "./method.ts";
import { refuseInside } from "./shared/refuse-inside.ts";

/**
 * Answers, then stops the server (seeds 5.6). Processes are suspended after their running tool calls had time to
 * finish; with `now` they are killed. With `restart` the next server resumes them. Inside a run it fails with
 * PERMISSION, because an agent must not stop its own kernel.
 */
export const shutdown = method({
  payload: () => z.object({ now: z.boolean().optional(), restart: z.boolean().optional() }),
  closes: true,
  handle({ now = false, restart }, { host }, caller) {
    refuseInside(caller, insideRun);
    const draining = host.stop(now, { restart });
    return { pid: process.pid, ...(draining && { draining }) };
  },
});

function insideRun(unit: string): string {
  return `The daemon can't be stopped from inside a run (${unit}). Stop it from your own terminal.`;
}
