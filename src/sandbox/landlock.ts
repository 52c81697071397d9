/** The command line of a program that Landlock confines (landlock(7)), for systems where no namespace can be made. */

import { LANDLOCK } from "../lib/hidden-modes.ts";
import type { Grants } from "./grants.ts";

/** Devices that programs write. */
const DEVICES = ["null", "zero", "full", "random", "urandom", "tty", "ptmx", "pts", "shm"];

/** `binary`: of Rnix, which gives up its rights and becomes the program that follows. */
export function landlock(binary: string, { read, write }: Grants): string[] {
  const devices = DEVICES.map((name) => `/dev/${name}`);
  return [binary, LANDLOCK, JSON.stringify({ read: [...read, "/dev"], write: [...write, ...devices] })];
}
