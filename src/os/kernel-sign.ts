import { readdirSync } from "node:fs";
import { libc } from "./libc.ts";
import { readLink } from "./linux-table.ts";

/**
 * Marks a process that holds a kernel, independent of its binary's name and its data folder: an anonymous file in
 * memory that stays open. Programs below it can't close, rename or remove it. Linux only.
 */
export function showKernelSign(): void {
  libc()?.nameInMemory(NAME);
}

/** Returns true when this process of the same user holds a kernel. */
export function holdsKernel(pid: number): boolean {
  const folder = `/proc/${pid}/fd`;
  let names: string[];
  try {
    names = readdirSync(folder);
  } catch {
    return false; // It has ended, or is another user's.
  }
  return names.some((name) => readLink(`${folder}/${name}`)?.startsWith(LINK));
}

const NAME = "rnix-kernel";
const LINK = `/memfd:${NAME} `;
