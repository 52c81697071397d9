import type { ProcessTag } from "./process-tag.ts";

/** A process, told apart from a later one that got the same PID. */
export interface Identity {
  pid: number;
  /** When it started, as the system counts it: comparable for equality only, and within one boot. */
  start: string;
  /** The boot it belongs to; "" where `start` is an absolute time. */
  boot: string;
}

export interface Process {
  pid: number;
  ppid: number;
  pgid: number;
  start: string;
  /** Ended and not yet reaped. */
  zombie: boolean;
}

/** What a program is found by, with everything it started. */
export interface Trace {
  id: string;
  /** The program itself, and with it the group it leads; null when it is not known. */
  leader: Identity | null;
  mark: ProcessTag | null;
  /** Its pipes as /proc/<pid>/fd shows them. */
  pipes: readonly string[];
}

/** The operating system's processes. */
export interface ProcessTable {
  /** Null when there is none. On Linux it has looked before it returns. */
  find(pid: number): Promise<Process | null>;
  /**
   * What lives of each trace, by its id: the leader and its group, who carries its cookie or mark, who holds
   * its pipes, and all that these started. Never this process itself.
   */
  members(traces: readonly Trace[]): Promise<Map<string, Process[]>>;
  boot(): string;
}

/** The variable that every program of Rnix carries; its value is the id of the program. */
export const COOKIE = "RNIX_CHILD";

/** True when the process runs, and is the same one. A zombie does not run. */
export async function isRunning(table: ProcessTable, identity: Identity): Promise<boolean> {
  if (identity.boot !== table.boot()) return false;
  const found = await table.find(identity.pid);
  return found !== null && found.start === identity.start && !found.zombie;
}

/** Adds to `found` everything that its members started, and what those did. */
export function withDescendants(found: Process[], all: Iterable<Process>): Process[] {
  const pids = new Set(found.map((member) => member.pid));
  const rest = [...all];
  const members = [...found];
  for (let grew = true; grew; ) {
    grew = false;
    for (const process of rest) {
      if (pids.has(process.pid) || !pids.has(process.ppid)) continue;
      pids.add(process.pid);
      members.push(process);
      grew = true;
    }
  }
  return members;
}
