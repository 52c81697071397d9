/** The program that takes over the output of a moved command when this process dies. */

import { closeSync } from "node:fs";
import { libc } from "./libc.ts";

/** What a keeper is started with, and how this process's hold on it is given up. */
export interface Keeper {
  argv: string[];
  /** Its descriptors from 3 on. */
  inherit: number[];
  /** Called once, when it has been started, or has ended. */
  release: { started(): void; ended(): void };
}

/**
 * A keeper holds the pipes, so that the command is not ended by its next print, and reads nothing while this process
 * lives: its first read ends when the other end of `life` is closed, which only this process holds. Then it copies the
 * rest to its output, the file of the unit.
 */
export function outputKeeper(pipes: readonly number[]): Keeper | null {
  const life = libc()?.pipe();
  if (!life || pipes.length === 0) return null;
  const copies = pipes.map((_, i) => `cat <&${i + 4} &`).join(" ");
  return {
    argv: ["/bin/sh", "-c", `read -r _ <&3; ${copies} wait`, "rnix-output"],
    inherit: [life.read, ...pipes],
    release: { started: () => closeSync(life.read), ended: () => closeSync(life.write) },
  };
}
