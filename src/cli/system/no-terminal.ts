/** Explains why a conversation needs a terminal. */

import type { Io } from "../io.ts";

/** Why a conversation is not possible where the command runs; undefined if one is. */
export function noTerminal(io: Pick<Io, "env" | "stdin" | "stdout" | "stderr">): string | undefined {
  if (io.stdin.kind !== "tty") return "stdin is not a terminal";
  if (!io.stdout.isTTY || !io.stderr.isTTY) return "the output does not go to a terminal";
  if (io.env.CI) return "CI is set";
  return io.env.TERM === "dumb" ? "TERM is dumb" : undefined;
}
