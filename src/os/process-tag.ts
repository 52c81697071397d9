/** Marks on processes that a cleared environment does not remove, and the descendants that this process adopts. */

import { existsSync } from "node:fs";
import { libc } from "./libc.ts";

/**
 * A mark that survives a cleared environment: the soft and hard limit on real-time CPU, set to a unique number
 * beyond 100,000 years. It restricts no program. Descendants inherit it through exec, setsid and `env -i`, and the same
 * user can read it. Without CAP_SYS_RESOURCE, which no program of a run has, a process can lower the hard limit, but
 * can't remove it. Linux only.
 */
export type ProcessTag = string;

/** Returns the mark of a program: `kernelId` identifies the kernel, `n` the program. */
export function tagOf(kernelId: string, n: number): ProcessTag {
  const salt = BigInt.asUintN(32, BigInt(Bun.hash(kernelId)));
  return (LOWEST + (salt << COUNTER_BITS) + BigInt.asUintN(Number(COUNTER_BITS), BigInt(n))).toString();
}

/**
 * The part of a kernel's marks that remains when a program lowers its soft limit before its hard limit is set: the hard
 * limit inherited from the kernel's process. It identifies the kernel, not the program.
 */
export function kernelMark(kernelId: string): ProcessTag {
  return tagOf(kernelId, -1);
}

/** Gives this process, which exists only for that kernel, the kernel's mark. It can't be removed. */
export function carryKernelMark(kernelId: string): void {
  const mark = BigInt(kernelMark(kernelId));
  const calls = libc();
  const limit = calls?.limit(RLIMIT_RTTIME);
  if (calls && limit && limit.hard > mark && calls.setLimit(RLIMIT_RTTIME, mark, mark))
    carried = kernelMark(kernelId);
  // Programs of root could raise the limit again. Containers have no such right either.
  calls?.prctl(PR_CAPBSET_DROP, CAP_SYS_RESOURCE);
}

/** The mark of the kernel that this process holds or held. */
let carried: ProcessTag | null = null;

/** Returns the mark that an ancestor's kernel gave a process, not the mark of a kernel it holds itself. */
export function readGivenMark(pid: number): ProcessTag | null {
  const mark = readTag(pid);
  return pid === process.pid && mark === carried ? null : mark;
}

/**
 * Starts a program under a mark; `marked` is false where marks are not supported. `start` must be synchronous. The
 * program inherits the soft limit. Its hard limit is set once it runs, because this process could not raise its own
 * again; a program that gives others marks (`givesMarks`) keeps it.
 */
export function withTag<T extends { pid: number }>(
  mark: ProcessTag,
  start: () => T,
  givesMarks = false,
): { started: T; marked: boolean } {
  const calls = libc();
  const own = calls?.limit(RLIMIT_RTTIME);
  const value = BigInt(mark);
  if (!calls || !own || own.hard < value) return { started: start(), marked: false };
  const marked = calls.setLimit(RLIMIT_RTTIME, value, own.hard);
  try {
    const started = start();
    if (marked && !givesMarks) calls.setLimit(RLIMIT_RTTIME, value, value, started.pid);
    return { started, marked };
  } finally {
    if (marked) calls.setLimit(RLIMIT_RTTIME, own.soft, own.hard);
  }
}

/** Reads the mark of a process, zombies included; null when it has none, is gone, or is another user's. */
export function readTag(pid: number | "self"): ProcessTag | null {
  const limit = libc()?.limit(RLIMIT_RTTIME, pid === "self" ? 0 : pid);
  const mark = [limit?.soft, limit?.hard].find((value) => value && value >= LOWEST && value < HIGHEST);
  return mark?.toString() ?? null;
}

/**
 * Returns true when an ancestor has limited this process's real-time CPU, as every mark does. Only a right that no
 * program of a run has removes the limit: not another value, a cleared environment, a namespace or a /proc of its own.
 */
export function isLimited(): boolean {
  const hard = libc()?.limit(RLIMIT_RTTIME)?.hard;
  return hard !== undefined && hard !== UNLIMITED && hard.toString() !== carried;
}

/** Reads the mark of a process, except this process's own mark: a kernel may run below another kernel. */
export function readTagOf(pid: number): ProcessTag | null {
  if (own === undefined) own = readTag("self");
  const mark = readTag(pid);
  return mark === own ? null : mark;
}

let own: ProcessTag | null | undefined;

const RLIMIT_RTTIME = 15;
const COUNTER_BITS = 24n;
const LOWEST = 1n << 62n;
const HIGHEST = 1n << 63n;
const UNLIMITED = (1n << 64n) - 1n;
const PR_CAPBSET_DROP = 24;
const CAP_SYS_RESOURCE = 24;

/**
 * Marks a process that holds a kernel, independent of its binary's name and its data folder: an anonymous file in
 * memory that stays open. Programs below it can't close, rename or remove it. Linux only.
 */
function showKernelSign(): void {
  libc()?.nameInMemory(NAME);
}

const NAME = "rnix-kernel";
/** The link of that file in /proc/<pid>/fd begins with it. */
export const KERNEL_LINK = `/memfd:${NAME} `;

const PR_SET_CHILD_SUBREAPER = 36;
/** The direct children of this process. */
export const CHILDREN = `/proc/self/task/${process.pid}/children`;

/**
 * Makes this process the subreaper of its descendants (Linux, prctl(2)): all their orphans become its children, even
 * hidden ones. Called once before the first program of a kernel. Returns false where it is not supported.
 *
 * `alone`: this process exists only for its kernel, so every orphan belongs to a run, even without a mark. PID 1 of a
 * container also adopts other orphans, so there a mark is required.
 */
export function becomeSubreaper({ alone = false }: { alone?: boolean } = {}): boolean {
  kernels++;
  if (alone) {
    showKernelSign();
    ownsAll = process.pid !== 1;
  }
  // If orphans can't be listed, they could not be reaped: leave them to the system.
  if (!active && existsSync(CHILDREN)) active = libc()?.prctl(PR_SET_CHILD_SUBREAPER, 1) === 0;
  return active;
}

/** A kernel of this process has ended. After the last one, orphans are the system's again. */
export function leaveSubreaper(): void {
  if (--kernels > 0) return;
  if (active) libc()?.prctl(PR_SET_CHILD_SUBREAPER, 0);
  active = false;
  ownsAll = false;
}

export function isSubreaper(): boolean {
  return active;
}

/** Returns true when every orphan of this process belongs to a run. */
export function ownsEveryOrphan(): boolean {
  return active && ownsAll;
}

let active = false;
let ownsAll = false;
/** Kernels that live in this process. */
let kernels = 0;
