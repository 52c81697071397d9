import { readdirSync } from "node:fs";
import { libc } from "./libc.ts";
import { readLink } from "./linux-table.ts";

/**
 * The sign by which a process is known to hold a kernel, whatever its binary is called and wherever its data lies: a
 * nameless file in memory, open for its life. A program below it can't close, rename or remove that. Linux only.
 */
export function showKernelSign(): void {
  libc()?.nameInMemory(NAME);
}

/** Whether this process of the same user holds a kernel. */
export function holdsKernel(pid: number): boolean {
  const folder = `/proc/${pid}/fd`;
  let names: string[];
  try {
    names = readdirSync(folder);
  } catch {
    return false; // It has ended, or another user's: no kernel of this user.
  }
  return names.some((name) => readLink(`${folder}/${name}`)?.startsWith(LINK));
}

const NAME = "rnix-kernel";
const LINK = `/memfd:${NAME} `;
