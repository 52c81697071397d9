import { libc } from "./libc.ts";
import { readCookie, readStat } from "./linux-table.ts";
import type { Process } from "./process-table.ts";
import { type ProcessTag, readTagOf } from "./process-tag.ts";
import { signal } from "./signal.ts";
import { directChildren, isSubreaper, ownsEveryOrphan } from "./subreaper.ts";

/** What an orphan is attributed by, without a look at files of the system. */
export interface OrphanTrace {
  pid: number;
  mark: ProcessTag | null;
  session: number;
  /** The id of its program in its environment. Read only without a mark. */
  cookie: string | null;
}

export type Orphan = OrphanTrace & Process;

export interface Adopted {
  running: Orphan[];
  /** False: orphans ended as fast as they were looked at, and each may have started another. */
  settled: boolean;
}

/**
 * Programs that this process started and Bun waits for, with their marks. Of the process and not of one
 * kernel in it, as orphans are: they are never reaped here, which would take their exit status from Bun.
 */
export const leaders = new Map<number, ProcessTag | null>();

/** Orphans seen before. Their PID stays theirs until they are reaped here, so they need no second look. */
const known = new Map<number, Orphan>();

/**
 * The orphans that fell to this process as a subreaper: reaps the ended ones and gives those that run. Null
 * when it is no subreaper.
 */
export function adoptedProcesses(): Adopted | null {
  if (!isSubreaper()) return null;
  for (let look = 1; ; look++) {
    const { running, ended } = lookOnce();
    if (ended === 0 || look === MOST_LOOKS) return { running, settled: ended === 0 };
  }
}

/**
 * Kills the wanted orphans as they are seen, again and again for a few milliseconds: a program that forks and exits
 * within 0.2 ms has changed its PID before a list of processes is complete. Returns those of the last look.
 */
export function killOrphans(isWanted: (orphan: OrphanTrace) => boolean): OrphanTrace[] {
  if (!isSubreaper()) return [];
  const end = performance.now() + SLICE_MS;
  for (;;) {
    const seen: OrphanTrace[] = [];
    for (const pid of directChildren()) {
      const orphan = traceOf(pid);
      if (!orphan || !isWanted(orphan)) continue;
      // A child of this process keeps its PID until it is reaped here.
      signal(pid, "SIGKILL");
      seen.push(orphan);
      if (libc()?.reap(pid)) known.delete(pid);
    }
    if (seen.length === 0 || performance.now() > end) return seen;
  }
}

const MOST_LOOKS = 10;
/** How long the thread is held for one turn. */
const SLICE_MS = 3;

function lookOnce(): { running: Orphan[]; ended: number } {
  const running: Orphan[] = [];
  let ended = 0;
  for (const pid of directChildren()) {
    const trace = traceOf(pid);
    if (!trace) continue;
    if (libc()?.reap(pid)) {
      known.delete(pid);
      ended += 1;
      continue;
    }
    const orphan = known.get(pid) ?? look(trace);
    if (!orphan) continue;
    known.set(pid, orphan);
    running.push(orphan);
  }
  return { running, ended };
}

/**
 * Null for what is no orphan of a program. Without a mark it counts as one only where nothing else is below this
 * process, and not in this process's session: programs have sessions of their own, and none comes back to ours.
 */
function traceOf(pid: number): OrphanTrace | null {
  if (leaders.has(pid)) return null;
  const before = known.get(pid);
  if (before) return before;
  const mark = readTagOf(pid);
  const calls = libc();
  const session = calls?.session(pid) ?? -1;
  if (mark === null && (!ownsEveryOrphan() || session === -1 || session === calls?.session(0))) return null;
  return { pid, mark, session, cookie: mark === null ? (readCookie(pid) ?? null) : null };
}

function look(trace: OrphanTrace): Orphan | null {
  const found = readStat(trace.pid);
  return found && { ...found, ...trace };
}
