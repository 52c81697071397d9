/** Sends a signal to the processes that a command names. */

import { nearestName } from "../../lib/edit-distance.ts";
import { messageOf } from "../../lib/error-detail.ts";
import { SIGINT, SIGKILL, SIGPAUSE, SIGRESUME, SIGTERM, type Signal } from "../../lib/signals.ts";
import { EXIT, exitCodeOf, usageError } from "../exit.ts";
import { type Io, withWire } from "../io.ts";
import { plural } from "../output/format.ts";
import { lastRun, target } from "./target.ts";

/** Signals all, even if some fail: the exit code is that of the first failure. Without PIDs: the project's last live run. */
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

/** The kernel's signals by name. Their numbers differ from those of Unix. */
export const SIGNALS: Readonly<Record<string, Signal>> = {
  TERM: SIGTERM,
  KILL: SIGKILL,
  INT: SIGINT,
  PAUSE: SIGPAUSE,
  RESUME: SIGRESUME,
};

/** Parses TERM, SIGTERM, term or 1. */
export function parseSignal(text: string): Signal {
  const name = text.toUpperCase().replace(/^SIG/, "");
  const byName = Object.hasOwn(SIGNALS, name) ? SIGNALS[name] : undefined;
  const signal = byName ?? Object.values(SIGNALS).find((number) => String(number) === text);
  if (signal !== undefined) return signal;
  const near = name === "9" ? "KILL" : nearestName(name, Object.keys(SIGNALS));
  throw usageError(
    `-s: expected ${expected()}, got ${JSON.stringify(text)}${near === undefined ? "" : `; did you mean -s ${near}?`}`,
  );
}

/** Explains flags of Unix kill that Rnix reads differently or not at all: `kill -9`, `kill -TERM`. */
export function explainSignalFlag(flag: string): string | undefined {
  const name = flag.replace(/^-+/, "").toUpperCase();
  if (/^\d/.test(name)) {
    return `; Rnix numbers its signals differently (${expected()}): to kill at once, use -s KILL`;
  }
  // Short flags are split into letters: -TERM arrives as -T, -KILL as -K.
  const meant = Object.keys(SIGNALS).find((signal) => signal.startsWith(name.replace(/^SIG/, "")));
  return flag.startsWith("--") || meant === undefined ? undefined : `; write a signal as -s ${meant}`;
}

function expected(): string {
  return Object.entries(SIGNALS)
    .map(([name, number]) => `${name} (${number})`)
    .join(", ");
}
