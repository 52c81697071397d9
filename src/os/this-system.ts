/** Chooses the process table of this system. */

import { linuxTable } from "./linux-table.ts";
import type { ProcessTable } from "./process-table.ts";
import { psTable } from "./ps-table.ts";

export function processTable(): ProcessTable {
  return process.platform === "linux" ? linuxTable : psTable(runPs);
}

async function runPs(argv: string[]): Promise<string> {
  const env = { PATH: "/bin:/usr/bin", LC_ALL: "C" };
  const proc = Bun.spawn(argv, { env, stdin: "ignore", stdout: "pipe", stderr: "ignore", timeout: PS_MS });
  return new Response(proc.stdout).text();
}

const PS_MS = 5000;
