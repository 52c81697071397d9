import { readFileSync } from "node:fs";
import { libc } from "./libc.ts";

/**
 * The second cookie of a program, for those that clear their environment: the soft limit on real-time CPU,
 * set to a number of its own somewhere beyond 100,000 years. It binds nobody, everything below the program
 * inherits it through exec, setsid and `env -i`, and the system shows it in /proc/<pid>/limits. Linux only.
 */
export type Mark = string;

/** A mark for each program: `kernelId` tells the kernels apart, `n` the programs of one kernel. */
export function markOf(kernelId: string, n: number): Mark {
  const salt = BigInt.asUintN(32, BigInt(Bun.hash(kernelId)));
  return (LOWEST + (salt << COUNTER_BITS) + BigInt.asUintN(Number(COUNTER_BITS), BigInt(n))).toString();
}

/** Whether that kernel gave it. */
export function isMarkOf(kernelId: string, mark: Mark): boolean {
  return BigInt(mark) >> COUNTER_BITS === BigInt(markOf(kernelId, 0)) >> COUNTER_BITS;
}

/** Starts something under a mark; false in `marked` where marks can't be had. `start` must be synchronous. */
export function underMark<T>(mark: Mark, start: () => T): { started: T; marked: boolean } {
  const calls = libc();
  const own = calls?.limit(RLIMIT_RTTIME);
  if (!calls || !own || own.hard < HIGHEST) return { started: start(), marked: false };
  const marked = calls.setLimit(RLIMIT_RTTIME, BigInt(mark), own.hard);
  try {
    return { started: start(), marked };
  } finally {
    if (marked) calls.setLimit(RLIMIT_RTTIME, own.soft, own.hard);
  }
}

/** The mark that a process carries, zombies included; null when it has none or is gone. */
export function readMark(pid: number | "self"): Mark | null {
  let limits: string;
  try {
    limits = readFileSync(`/proc/${pid}/limits`, "latin1");
  } catch {
    return null; // Gone in the meantime, or no /proc: no mark to be seen.
  }
  const soft = /^Max realtime timeout\s+(\d+)/m.exec(limits)?.[1];
  if (soft === undefined) return null;
  const value = BigInt(soft);
  return value >= LOWEST && value < HIGHEST ? soft : null;
}

/** The same, but for the mark that this process carries itself: a kernel may run below another kernel. */
export function readOthersMark(pid: number): Mark | null {
  if (own === undefined) own = readMark("self");
  const mark = readMark(pid);
  return mark === own ? null : mark;
}

let own: Mark | null | undefined;

const RLIMIT_RTTIME = 15;
const COUNTER_BITS = 24n;
const LOWEST = 1n << 62n;
const HIGHEST = 1n << 63n;
