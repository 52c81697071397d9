/** Runs as the commands `spawn --detach` and `ps` print them. */

import { z } from "zod";
import { ProcInfo } from "../../../src/store/runs/schema.ts";
import type { Machine, RunOptions } from "./machine.ts";

/** Starts a run that the command does not follow. */
export async function detach(machine: Machine, ...args: string[]): Promise<{ pid: number; uuid: string }> {
  const { stdout, stderr } = await machine.run(["spawn", "--detach", ...args]);
  const [, pid, uuid] = /^(\d+) (\S+)\n$/.exec(stdout) ?? [];
  if (uuid === undefined) throw new Error(`it was not spawned: ${stderr}`);
  return { pid: Number(pid), uuid };
}

/** The runs that `rnix ps` lists with these flags; all of them by default. */
export async function listed(machine: Machine, flags = ["-a"], options?: RunOptions): Promise<ProcInfo[]> {
  const { code, stdout, stderr } = await machine.run(["ps", "--json", ...flags], options);
  if (code !== 0) throw new Error(`rnix ps ended with ${code}: ${stderr}`);
  return z.array(ProcInfo).parse(JSON.parse(stdout));
}
