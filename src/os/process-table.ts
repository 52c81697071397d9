/** The operating system's processes: what a process is, and how the processes of a program are found. */

import type { ProcessTag } from "./process-tag.ts";

/** Identifies a process, even when its PID is reused later. */
export interface Identity {
  pid: number;
  /** Its start time in the system's unit. Compare it for equality only, and within one boot. */
  start: string;
  /** The ID of the boot; "" where `start` is an absolute time. */
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

/** What identifies a program and its descendants in the process table. */
export interface Trace {
  id: string;
  /** The program itself, which leads its group; null when it is not known. */
  leader: Identity | null;
  mark: ProcessTag | null;
  /** Its pipes, as in /proc/<pid>/fd. */
  pipes: readonly string[];
}

export interface ProcessTable {
  /** Resolves to null when there is none. On Linux it reads synchronously, before it returns. */
  find(pid: number): Promise<Process | null>;
  /**
   * Finds the living processes of each trace, by its id: its leader and group, those that carry its cookie or mark or
   * hold its pipes, and their descendants. Never this process itself.
   */
  members(traces: readonly Trace[]): Promise<Map<string, Process[]>>;
  boot(): string;
}

/** The environment variable of every program of Rnix; its value is the program's id. */
export const COOKIE = "RNIX_CHILD";

/** Returns true when this same process of the present boot runs. A zombie does not run. */
export async function isRunning(
  table: ProcessTable,
  { pid, start }: Pick<Process, "pid" | "start">,
): Promise<boolean> {
  const found = await table.find(pid);
  return found !== null && found.start === start && !found.zombie;
}

/** Returns `found` with all descendants of its members. */
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
