/** Sends a signal to the processes that a command names. */

import { messageOf } from "../../lib/error-detail.ts";
import type { Signal } from "../../lib/signals.ts";
import { EXIT, exitCodeOf } from "../exit.ts";
import { type Io, withWire } from "../io.ts";
import { plural } from "../output/format.ts";
import { SIGNALS } from "./signals.ts";
import { lastRun, target } from "./target.ts";

/**
 * Signals all given processes, even if some fail; the exit code is that of the first failure. Without one, the project's
 * last live run gets the signal.
 */
export async function signalProcesses(
  io: Io,
  pids: string[],
  signal: Signal,
  o: { tree: boolean },
): Promise<number> {
  const targets = pids.map((pid) => target(io, pid));
  const name = Object.entries(SIGNALS).find(([, number]) => number === signal)?.[0] ?? "";
  return withWire(io, async (wire) => {
    let code: number = EXIT.ok;
    for (const to of targets.length > 0 ? targets : [await lastRun(io, wire, { alive: true })]) {
      try {
        const answer = await wire.request(o.tree ? "signal_tree" : "kill", { ...to, signal });
        io.stderr.write(`process ${answer.pid}: ${saidOf(name, answer)}\n`);
      } catch (error) {
        io.stderr.write(`rnix: ${messageOf(error)}\n`);
        if (code === EXIT.ok) code = exitCodeOf(error);
      }
    }
    return code;
  });
}

function saidOf(
  name: string,
  { affected, was_suspended }: { affected: number; was_suspended?: true },
): string {
  if (affected === 0) return `it has ended already, ${name} was not sent`;
  if (!was_suspended) return `${name} sent to ${plural(affected, "process", "processes")}`;
  const below = affected > 1 ? ` and ${plural(affected - 1, "run")} below it` : "";
  return `it was suspended; ${name} has ended it${below}`;
}
