import { libc } from "./libc.ts";

/**
 * The second cookie of a program, for those that clear their environment: the limit on real-time CPU, soft and
 * hard, set to a number of its own somewhere beyond 100,000 years. It restricts no program, everything below the
 * program inherits it through exec, setsid and `env -i`, and the system shows it to the same user. Without
 * CAP_SYS_RESOURCE a process can lower the hard limit, but can't remove it. Linux only.
 */
export type ProcessTag = string;

/** A mark for each program: `kernelId` tells the kernels apart, `n` the programs of one kernel. */
export function tagOf(kernelId: string, n: number): ProcessTag {
  const salt = BigInt.asUintN(32, BigInt(Bun.hash(kernelId)));
  return (LOWEST + (salt << COUNTER_BITS) + BigInt.asUintN(Number(COUNTER_BITS), BigInt(n))).toString();
}

/**
 * What stays of every mark of a kernel when a program lowers its soft limit before its own hard limit is set: the hard
 * limit of the kernel's process, which it inherits. It says which kernel it comes from, not which program.
 */
export function kernelMark(kernelId: string): ProcessTag {
  return tagOf(kernelId, -1);
}

/** Makes this process, which exists for that kernel alone, carry its mark. It can't be taken off again. */
export function carryKernelMark(kernelId: string): void {
  const mark = BigInt(kernelMark(kernelId));
  const calls = libc();
  const limit = calls?.limit(RLIMIT_RTTIME);
  if (calls && limit && limit.hard > mark && calls.setLimit(RLIMIT_RTTIME, mark, mark))
    carried = kernelMark(kernelId);
}

/** Of the kernel that this process holds or held. */
let carried: ProcessTag | null = null;

/** The mark that this process or an ancestor was given, and not the one of a kernel of its own. */
export function readGivenMark(pid: number): ProcessTag | null {
  const mark = readTag(pid);
  return pid === process.pid && mark === carried ? null : mark;
}

/** Whether that kernel gave it. */
export function isTagOf(kernelId: string, mark: ProcessTag): boolean {
  return BigInt(mark) >> COUNTER_BITS === BigInt(tagOf(kernelId, 0)) >> COUNTER_BITS;
}

/**
 * Starts something under a mark; false in `marked` where marks can't be had. `start` must be synchronous. The
 * program inherits the soft limit. The hard one is set when it runs, as this process could not raise its own again.
 */
export function withTag<T extends { pid: number }>(
  mark: ProcessTag,
  start: () => T,
): { started: T; marked: boolean } {
  const calls = libc();
  const own = calls?.limit(RLIMIT_RTTIME);
  const value = BigInt(mark);
  if (!calls || !own || own.hard < value) return { started: start(), marked: false };
  const marked = calls.setLimit(RLIMIT_RTTIME, value, own.hard);
  try {
    const started = start();
    if (marked) calls.setLimit(RLIMIT_RTTIME, value, value, started.pid);
    return { started, marked };
  } finally {
    if (marked) calls.setLimit(RLIMIT_RTTIME, own.soft, own.hard);
  }
}

/** The mark that a process carries, zombies included; null when it has none, is gone or another user's. */
export function readTag(pid: number | "self"): ProcessTag | null {
  const limit = libc()?.limit(RLIMIT_RTTIME, pid === "self" ? 0 : pid);
  const mark = [limit?.soft, limit?.hard].find((value) => value && value >= LOWEST && value < HIGHEST);
  return mark?.toString() ?? null;
}

/** The same, but for the mark that this process carries itself: a kernel may run below another kernel. */
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
