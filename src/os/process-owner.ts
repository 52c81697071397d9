import { holdsKernel } from "./kernel-sign.ts";
import { readStat, readVariables } from "./linux-table.ts";
import { COOKIE, type Process } from "./process-table.ts";
import { type ProcessTag, readGivenMark, readTagOf } from "./process-tag.ts";

/**
 * Whose program a process is: that of a process of ours, by its UUID; one that an ended process has left, or of which
 * nobody can tell whose it is; that of another kernel; or nobody's, as a person's are. "gone": it has ended itself.
 */
export type ProcessOwner = { uuid: string } | "left" | "another kernel's" | "nobody's" | "gone";

/** The programs of a kernel. */
interface Programs {
  /** The owner of the program with this PID that runs. */
  byLeader(pid: number): string | undefined;
  byMark(mark: ProcessTag): string | undefined;
  /** By its id, which is the value of the cookie. */
  byCookie(id: string): string | undefined;
  /** Whether this kernel gave the mark. */
  gave(mark: ProcessTag): boolean;
  /** Whether this kernel gave the id. */
  named(id: string): boolean;
}

/**
 * By descent, which no program can change, then by the mark and the cookie of the process or of any ancestor, for those
 * whose parents have ended. Below this process, which is a subreaper, stands nothing but what its programs have started.
 */
export function ownerOfProcess(pid: number, programs: Programs): ProcessOwner {
  if (pid === process.pid) return "nobody's";
  const line = lineOf(pid);
  if (line === "gone" || line === "unclear") return line === "gone" ? "gone" : "left";
  for (const { pid: ancestor } of line.processes) {
    const uuid = programs.byLeader(ancestor);
    if (uuid !== undefined) return { uuid };
  }
  const sign = signOf(line.processes, readTagOf);
  const uuid = sign && ownerOf(sign, programs);
  if (uuid !== undefined && uuid !== null) return { uuid };
  if (line.belowUs || (sign && isOurs(sign, programs))) return "left";
  return sign ? "another kernel's" : "nobody's";
}

/**
 * Whether this process was started inside a run, of whatever kernel: it or an ancestor carries a mark or a cookie, or
 * an ancestor holds a kernel. One whose ancestors change faster than one can look is inside.
 */
export function isInside(): boolean {
  const line = lineOf(process.pid);
  if (line === "gone") return false;
  return line === "unclear" || signOf(line.processes, readGivenMark) !== null;
}

/** By what a process is known to be a run's: `id` of its program, `unit` of its run. */
type Sign = { mark: ProcessTag } | { id: string } | { unit: string } | { kernel: number };

function signOf(line: readonly Process[], markOf: (pid: number) => ProcessTag | null): Sign | null {
  for (const { pid } of line) {
    const mark = markOf(pid);
    if (mark !== null) return { mark };
  }
  for (const one of line) {
    const sign = lookedAt(one);
    if (sign) return sign;
  }
  return null;
}

/** Processes without a sign stay without: none can come below a kernel later. Their files are read once. */
const outside = new Set<string>();
const MOST_OUTSIDE = 1000;

function lookedAt({ pid, start }: Process): Sign | null {
  const key = `${pid}:${start}`;
  if (outside.has(key)) return null;
  const [id, unit] = readVariables(pid, [COOKIE, "RNIX_UNIT"]);
  if (id) return { id };
  if (unit) return { unit };
  if (pid !== process.pid && holdsKernel(pid)) return { kernel: pid };
  if (outside.size >= MOST_OUTSIDE) outside.clear();
  outside.add(key);
  return null;
}

function ownerOf(sign: Sign, programs: Programs): string | undefined {
  if ("mark" in sign) return programs.byMark(sign.mark);
  if ("id" in sign) return programs.byCookie(sign.id);
  return "unit" in sign ? sign.unit : undefined;
}

function isOurs(sign: Sign, programs: Programs): boolean {
  if ("mark" in sign) return programs.gave(sign.mark);
  return "id" in sign && programs.named(sign.id);
}

interface Line {
  /** It, its parent, and so on. */
  processes: Process[];
  belowUs: boolean;
}

/** "unclear": its ancestors end faster than one can look. */
function lineOf(pid: number): Line | "gone" | "unclear" {
  for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
    const line = follow(pid);
    if (line) return line;
  }
  return readStat(pid) ? "unclear" : "gone";
}

/** null when one has ended on the way. */
function follow(pid: number): Line | null {
  const processes: Process[] = [];
  let row = readStat(pid);
  while (row) {
    processes.push(row);
    // The first process of a container adopts anybody.
    if (row.ppid === process.pid) return { processes, belowUs: process.pid !== 1 };
    if (row.ppid < 1) return { processes, belowUs: false };
    const above = readStat(row.ppid);
    // A parent is never younger: that PID went to another.
    if (above && Number(above.start) <= Number(row.start)) row = above;
    else if (isHidden(row, above)) return { processes, belowUs: false };
    else row = null;
  }
  return null;
}

/** The parent is there, and another user's, whose processes the system may hide (`hidepid`): none of our kernels. */
function isHidden(row: Process, above: Process | null): boolean {
  return above === null && readStat(row.pid)?.ppid === row.ppid;
}

const ATTEMPTS = 10;
