/** Parses signal names and explains wrong signal flags. */

import { nearestName } from "../../lib/edit-distance.ts";
import { SIGINT, SIGKILL, SIGPAUSE, SIGRESUME, SIGTERM, type Signal } from "../../lib/signals.ts";
import { usageError } from "../exit.ts";

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
