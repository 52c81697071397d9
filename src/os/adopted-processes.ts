/** Lists, reaps and kills the orphans that this process has adopted as a subreaper. */

import { libc } from "./libc.ts";
import { readCookie, readStat } from "./linux-table.ts";
import type { Process } from "./process-table.ts";
import { type ProcessTag, readTagOf } from "./process-tag.ts";
import { killRepeatedly, signal } from "./signal.ts";
import { directChildren, isSubreaper, ownsEveryOrphan } from "./subreaper.ts";

/** By what an orphan is attributed to a program, without reading /proc/<pid>/stat. */
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
  /** False when orphans ended during every scan: each may have started another process. */
  settled: boolean;
}

/**
 * Programs that this process started, with their marks. Bun waits for them, so they are never reaped here: that would
 * take their exit status from Bun. The list belongs to the whole process, which may hold several kernels.
 */
export const leaders = new Map<number, ProcessTag | null>();

/** Orphans seen before. A PID is not reused until it is reaped here, so each is read only once. */
const knownOrphans = new Map<number, Orphan>();

/** Reaps the ended orphans and returns the running ones; null when this process is no subreaper. */
export function adoptedProcesses(): Adopted | null {
  if (!isSubreaper()) return null;
  for (let scan = 1; ; scan++) {
    const { running, ended } = scanOnce();
    if (ended === 0 || scan === MAX_SCANS) return { running, settled: ended === 0 };
  }
}

/** Kills the wanted orphans: see `killRepeatedly`. */
export function killOrphans(isWanted: (orphan: OrphanTrace) => boolean): OrphanTrace[] {
  if (!isSubreaper()) return [];
  return killRepeatedly(directChildren, (pid) => {
    const orphan = traceOf(pid);
    if (!orphan || !isWanted(orphan)) return null;
    // The PID of a child is not reused until it is reaped here.
    signal(pid, "SIGKILL");
    if (libc()?.reap(pid)) knownOrphans.delete(pid);
    return orphan;
  });
}

const MAX_SCANS = 10;

function scanOnce(): { running: Orphan[]; ended: number } {
  const running: Orphan[] = [];
  let ended = 0;
  for (const pid of directChildren()) {
    const trace = traceOf(pid);
    if (!trace) continue;
    if (libc()?.reap(pid)) {
      knownOrphans.delete(pid);
      ended += 1;
      continue;
    }
    const orphan = knownOrphans.get(pid) ?? readOrphan(trace);
    if (!orphan) continue;
    knownOrphans.set(pid, orphan);
    running.push(orphan);
  }
  return { running, ended };
}

/**
 * Returns null when the process is no orphan of a program. A process without a mark counts as an orphan only if this
 * process has no other children, and only outside its session: each program has its own session.
 */
function traceOf(pid: number): OrphanTrace | null {
  if (leaders.has(pid)) return null;
  const before = knownOrphans.get(pid);
  if (before) return before;
  const mark = readTagOf(pid);
  const calls = libc();
  const session = calls?.session(pid) ?? -1;
  if (mark === null && (!ownsEveryOrphan() || session === -1 || session === calls?.session(0))) return null;
  return { pid, mark, session, cookie: mark === null ? (readCookie(pid) ?? null) : null };
}

function readOrphan(trace: OrphanTrace): Orphan | null {
  const found = readStat(trace.pid);
  return found && { ...found, ...trace };
}
