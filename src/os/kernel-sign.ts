/** A sign by which a process that holds a kernel is recognized. */

import { readdirSync, readlinkSync } from "node:fs";
import { errnoOf } from "../lib/error-detail.ts";
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
  for (const name of names) {
    const target = readLink(`${folder}/${name}`);
    if (target?.startsWith(LINK)) return true;
    // The folder can be listed and its links not (a container's root without ptrace): no other link is readable.
    if (target === null && !isReadable(`${folder}/${name}`)) return false;
  }
  return false;
}

/** Returns true for a readable link, and for one that was closed meanwhile. */
function isReadable(link: string): boolean {
  try {
    readlinkSync(link);
    return true;
  } catch (error) {
    return errnoOf(error) === "ENOENT";
  }
}

const NAME = "rnix-kernel";
const LINK = `/memfd:${NAME} `;
