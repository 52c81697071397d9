/** Orphans of a kernel's programs: attributes them to a program and ends them with it. */

import { readFileSync } from "node:fs";
import { realClock, type Timer } from "../lib/clock.ts";
import { countdown, endProcesses } from "./end-processes.ts";
import { leaders } from "./leaders.ts";
import { libc } from "./libc.ts";
import { type Process, type ProcessTable, readCookie, readStat } from "./process-table.ts";
import { CHILDREN, isSubreaper, ownsEveryOrphan, type ProcessTag, readTagOf } from "./process-tag.ts";
import { killRepeatedly, signal } from "./signal.ts";

/** A program of this kernel, from its start until it and its descendants have ended. */
interface OwnerProgram {
  readonly id: string;
  readonly pid: number;
  readonly mark: string | null;
  /** True while it runs and is not being ended. */
  readonly stays: boolean;
}

interface OrphanPorts {
  programs(): Iterable<OwnerProgram>;
  issued(mark: string): boolean;
  table: ProcessTable;
  graceMs: number;
  /** Called with processes that could not be ended. */
  onStuck(left: readonly { pid: number }[]): void;
}

/**
 * The processes that programs of a kernel leave and a subreaper adopts. An orphan's mark, cookie or session identifies
 * its program. An orphan without any of them belongs to one of the programs that ran when it was first seen. It ends
 * with the last of them, at the latest with the kernel. Linux only.
 */
export class Orphans {
  readonly #o: OrphanPorts;
  /** Ids of the programs that may have left an orphan, by its PID. */
  readonly #candidates = new Map<number, ReadonlySet<string>>();
  readonly #onChildSignal = (): void => {
    this.#reaping ??= realClock.timer(REAP_PAUSE_MS, () => {
      this.#reaping = undefined;
      this.#scan();
    });
  };
  #reaping: Timer | undefined;
  #ending: Promise<void> | undefined;
  #retry: Timer | undefined;
  #isClosed = false;

  constructor(o: OrphanPorts) {
    this.#o = o;
  }

  /** Reaps orphans on SIGCHLD. Called with each program: an orphan may end while its program runs. */
  watch(): void {
    if (!isSubreaper() || process.listeners("SIGCHLD").includes(this.#onChildSignal)) return;
    process.on("SIGCHLD", this.#onChildSignal);
    // The program runs already: one of its orphans may have ended.
    this.#onChildSignal();
  }

  /** Returns the orphans that end with this program; null when this process is no subreaper. */
  of(program: OwnerProgram): Adopted | null {
    if (!isSubreaper()) return null;
    const { running, settled } = this.#scan();
    return { running: running.filter((orphan) => this.#endsWith(program, orphan)), settled };
  }

  /** Kills them as soon as each is found; see `EndOptions`. */
  killAsFound(program: OwnerProgram): readonly { pid: number }[] {
    return killOrphans((orphan) => this.#endsWith(program, orphan));
  }

  /** Returns the orphans whose program is unknown. */
  unattributed(): Orphan[] {
    return this.#scan().running.filter((orphan) => this.#ownerOf(orphan) === undefined);
  }

  /** Ends the orphans of ended programs. Retries while one of them does not end. */
  endUnowned(): void {
    if (this.#isClosed || this.#ending) return;
    const isUnowned = (orphan: OrphanTrace): boolean => !this.#ownerOf(orphan) && this.#isFree(orphan);
    const { running, settled } = this.#scan();
    if (settled && !running.some(isUnowned)) return;
    this.#retry?.cancel();
    this.#ending = this.#end(isUnowned)
      .then((clean) => {
        if (!clean && !this.#isClosed) this.#retry = realClock.timer(RETRY_MS, () => this.endUnowned());
      })
      .finally(() => {
        this.#ending = undefined;
      });
  }

  /** Ends all orphans. Called after the programs have ended. */
  async close(): Promise<void> {
    this.#isClosed = true;
    this.#retry?.cancel();
    await this.#ending;
    // Another kernel in this process may own programs that have left orphans.
    await this.#end(() => leaders.size === 0 || ownsEveryOrphan());
    process.off("SIGCHLD", this.#onChildSignal);
    this.#reaping?.cancel();
  }

  /** Returns false when one did not end. */
  async #end(which: (orphan: OrphanTrace) => boolean): Promise<boolean> {
    const left = await endProcesses({
      table: this.#o.table,
      find: async () => this.#scan().running.filter(which),
      graceLeft: countdown(this.#o.graceMs),
      reap: () => void this.#scan(),
      killAsFound: () => killOrphans(which),
    });
    if (left.length > 0) this.#o.onStuck(left);
    return left.length === 0;
  }

  #scan(): Adopted {
    const found = adoptedProcesses() ?? { running: [], settled: true };
    const pids = new Set(found.running.map(({ pid }) => pid));
    for (const pid of this.#candidates.keys()) if (!pids.has(pid)) this.#candidates.delete(pid);
    for (const orphan of found.running) this.#candidatesOf(orphan);
    return found;
  }

  #endsWith(program: OwnerProgram, orphan: OrphanTrace): boolean {
    const owner = this.#ownerOf(orphan);
    return owner ? owner.id === program.id : this.#isFree(orphan, program);
  }

  #ownerOf({ mark, cookie, session }: OrphanTrace): OwnerProgram | undefined {
    for (const program of this.#o.programs()) {
      const isIts = mark === null ? program.id === cookie || program.pid === session : program.mark === mark;
      if (isIts) return program;
    }
    return undefined;
  }

  /** Returns true when no program that may own it keeps running, apart from the one that is `ending`. */
  #isFree(orphan: OrphanTrace, ending?: OwnerProgram): boolean {
    // The program that left it has ended already.
    if (orphan.mark !== null && this.#o.issued(orphan.mark)) return true;
    const candidates = this.#candidatesOf(orphan);
    const mine = new Set<number>();
    for (const program of this.#o.programs()) {
      mine.add(program.pid);
      if (program.id === ending?.id || !candidates.has(program.id)) continue;
      // When two programs end at the same time, each ends it.
      if (program.stays || !ending) return false;
    }
    // A process that is not in this list may be a program of another kernel in this process.
    return leaders.keys().every((pid) => mine.has(pid));
  }

  #candidatesOf({ pid }: OrphanTrace): ReadonlySet<string> {
    const before = this.#candidates.get(pid);
    if (before) return before;
    const candidates = new Set(Array.from(this.#o.programs(), ({ id }) => id));
    this.#candidates.set(pid, candidates);
    return candidates;
  }
}

/** Time between an orphan's end and its reaping: a program may leave thousands in a second. */
const REAP_PAUSE_MS = 20;
/** Time until the next attempt after KILL had no effect. */
const RETRY_MS = 10_000;

/** By what an orphan is attributed to a program, without reading /proc/<pid>/stat. */
interface OrphanTrace {
  pid: number;
  mark: ProcessTag | null;
  session: number;
  /** The id of its program in its environment. Read only without a mark. */
  cookie: string | null;
}

type Orphan = OrphanTrace & Process;

export interface Adopted {
  running: Orphan[];
  /** False when orphans ended during every scan: each may have started another process. */
  settled: boolean;
}

/** Orphans seen before. A PID is not reused until it is reaped here, so each is read only once. */
const knownOrphans = new Map<number, Orphan>();

/** Reaps the ended orphans and returns the running ones; null when this process is no subreaper. */
function adoptedProcesses(): Adopted | null {
  if (!isSubreaper()) return null;
  for (let scan = 1; ; scan++) {
    const { running, ended } = scanOnce();
    if (ended === 0 || scan === MAX_SCANS) return { running, settled: ended === 0 };
  }
}

/** Kills the wanted orphans: see `killRepeatedly`. */
function killOrphans(isWanted: (orphan: OrphanTrace) => boolean): OrphanTrace[] {
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

/**
 * Returns the PIDs of this process's direct children: started programs and adopted orphans. All of them belong to the
 * main thread, which starts programs and adopts orphans.
 */
export function directChildren(): number[] {
  const list = readFileSync(CHILDREN, "latin1");
  return list.split(" ").flatMap((pid) => (Number(pid) > 0 ? [Number(pid)] : []));
}
