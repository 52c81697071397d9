import { readStat } from "./linux-table.ts";
import { type Mark, readMark, readOthersMark } from "./mark.ts";

/**
 * Whose program a process is: that of a process of ours, by its UUID; one that an ended process has left, or of which
 * nobody can tell whose it is; that of another kernel; or nobody's, as a person's are. "gone": it has ended itself.
 */
export type Origin = { uuid: string } | "left" | "another kernel's" | "nobody's" | "gone";

/** The programs of a kernel. */
interface Programs {
  /** The owner of the program with this PID that runs. */
  byLeader(pid: number): string | undefined;
  byMark(mark: Mark): string | undefined;
  /** Whether this kernel gave it. */
  gave(mark: Mark): boolean;
}

/**
 * By descent, which no program can change, and only then by its mark, for those whose parents have ended. Below this
 * process, which is a subreaper, stands nothing but what its programs have started.
 */
export function originOf(pid: number, programs: Programs): Origin {
  if (pid === process.pid) return "nobody's";
  const line = lineOf(pid);
  if (!line) return "gone";
  for (const ancestor of line.pids) {
    const uuid = programs.byLeader(ancestor);
    if (uuid !== undefined) return { uuid };
  }
  const mark = readOthersMark(pid);
  if (mark === null) return line.belowUs ? "left" : "nobody's";
  const uuid = programs.byMark(mark);
  if (uuid !== undefined) return { uuid };
  return line.belowUs || programs.gave(mark) ? "left" : "another kernel's";
}

/** The marks that this process and those above it carry: one that has taken off its own is told by its parents'. */
export function marksOfLine(): Mark[] {
  const { pids } = lineOf(process.pid) ?? { pids: [process.pid] };
  return pids.map(readMark).filter((mark) => mark !== null);
}

interface Line {
  /** It, its parent, and so on. */
  pids: number[];
  belowUs: boolean;
}

/** null when the process has ended, or its ancestors end faster than one can look. */
function lineOf(pid: number): Line | null {
  for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
    const line = follow(pid);
    if (line) return line;
  }
  return null;
}

/** null when one has ended on the way. */
function follow(pid: number): Line | null {
  const pids: number[] = [];
  let row = readStat(pid);
  while (row) {
    pids.push(row.pid);
    // The first process of a container adopts anybody.
    if (row.ppid === process.pid) return { pids, belowUs: process.pid !== 1 };
    if (row.ppid <= 1) return { pids, belowUs: false };
    const above = readStat(row.ppid);
    // A parent is never younger: that PID went to another.
    row = above && Number(above.start) <= Number(row.start) ? above : null;
  }
  return null;
}

const ATTEMPTS = 10;
