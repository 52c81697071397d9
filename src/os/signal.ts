/** Signals to programs, and their ends. */

import { errnoOf } from "../lib/error-detail.ts";

export interface Exit {
  code: number | null;
  signal: string | null;
}

export async function exitOf(proc: Bun.Subprocess): Promise<Exit> {
  await proc.exited;
  return proc.signalCode === null
    ? { code: proc.exitCode, signal: null }
    : { code: null, signal: `${proc.signalCode}` };
}

/** Sends a signal to a process, or to a group with a negative number. Returns false when there is none. */
export function signal(pid: number, name: NodeJS.Signals | 0): boolean {
  try {
    process.kill(pid, name);
    return true;
  } catch (error) {
    // EPERM: the process exists, but is another user's now.
    if (errnoOf(error) === "EPERM") return true;
    if (errnoOf(error) === "ESRCH") return false;
    throw error;
  }
}

/** Asks a process to end. SIGCONT wakes a stopped one, so that it receives the signal. */
export function terminate(pid: number): void {
  if (signal(pid, "SIGTERM")) signal(pid, "SIGCONT");
}

/** Maximum time that one turn blocks the thread. */
const SLICE_MS = 3;

/**
 * Kills processes as soon as each is found, repeatedly for a few milliseconds: a program that forks and exits within
 * 0.2 ms escapes a complete list. One that had exited when it was looked at has its child in the next list, so a scan
 * counts as the last only if it saw no process that is new since the one before. `kill` returns null for a process
 * that it spares. Returns the killed ones of the last scan.
 */
export function killRepeatedly<T>(
  list: () => readonly number[],
  kill: (pid: number) => T | null,
  now: () => number = () => performance.now(),
): T[] {
  const end = now() + SLICE_MS;
  for (let before = new Set<number>(); ; ) {
    const pids = list();
    const killed = pids.flatMap((pid) => kill(pid) ?? []);
    const isLast = killed.length === 0 && pids.every((pid) => before.has(pid));
    if (isLast || now() > end) return killed;
    before = new Set(pids);
  }
}

export function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

/** Returns true when the promise settles within this time. */
export async function settles(promise: Promise<unknown>, ms: number): Promise<boolean> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const late = new Promise<false>((resolve) => {
    timer = setTimeout(() => resolve(false), ms);
  });
  const done = promise.then(
    () => true,
    () => true,
  );
  try {
    return await Promise.race([done, late]);
  } finally {
    clearTimeout(timer);
  }
}
