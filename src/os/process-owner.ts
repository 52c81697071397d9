/** Attributes a process of the system to the run whose program it is. */

import { readdirSync, readlinkSync } from "node:fs";
import { errnoOf } from "../lib/error-detail.ts";
import { COOKIE, type Process, readLink, readStat, readVariables } from "./process-table.ts";
import { isLimited, KERNEL_LINK, type ProcessTag, readGivenMark, readTagOf } from "./process-tag.ts";

/**
 * The run to which a process belongs. "unknown run": an ended run left it, or its run can't be determined. "other
 * kernel": another kernel started it. "no run": a user's own program. "gone": the process has ended.
 */
export type ProcessOwner = { uuid: string } | "unknown run" | "other kernel" | "no run" | "gone";

/** The programs of a kernel. */
interface Programs {
  /** Returns the owner of the running program with this PID. */
  byLeader(pid: number): string | undefined;
  byMark(mark: ProcessTag): string | undefined;
  /** Returns the owner of the program with this id, which is the value of its cookie. */
  byCookie(id: string): string | undefined;
  /** Returns true when this kernel issued the mark. */
  issuedMark(mark: ProcessTag): boolean;
  /** Returns true when this kernel issued the id. */
  issuedId(id: string): boolean;
}

/**
 * Decides by descent, which no program can change. When a parent has ended, decides by the mark and the cookie of the
 * process or an ancestor. All descendants of this process, a subreaper, were started by its programs.
 */
export function ownerOfProcess(pid: number, programs: Programs): ProcessOwner {
  if (pid === process.pid) return "no run";
  const line = ancestryOf(pid);
  if (line === "gone" || line === "unclear") return line === "gone" ? "gone" : "unknown run";
  for (const { pid: ancestor } of line.processes) {
    const uuid = programs.byLeader(ancestor);
    if (uuid !== undefined) return { uuid };
  }
  const sign = signOf(line.processes, readTagOf);
  const uuid = sign && ownerOf(sign, programs);
  if (uuid !== undefined && uuid !== null) return { uuid };
  if (line.belowThisProcess || (sign && isOurs(sign, programs))) return "unknown run";
  return sign ? "other kernel" : "no run";
}

/**
 * Returns true when this process was started inside a run of any kernel: it or an ancestor carries a mark or a cookie,
 * or an ancestor holds a kernel. Also true when its ancestors change faster than they can be read, and with a limit as
 * marks set it: a program in a namespace of its own shows no ancestors, or invented ones.
 */
export function isInside(): boolean {
  if (isLimited()) return true;
  const line = ancestryOf(process.pid);
  if (line === "gone") return false;
  return line === "unclear" || signOf(line.processes, readGivenMark) !== null;
}

/** What shows that a process belongs to a run: `id` is its program's, `unit` its run's. */
type Sign = { mark: ProcessTag } | { id: string } | { unit: string } | { kernel: number };

function signOf(line: readonly Process[], markOf: (pid: number) => ProcessTag | null): Sign | null {
  for (const { pid } of line) {
    const mark = markOf(pid);
    if (mark !== null) return { mark };
  }
  for (const one of line) {
    const sign = ownSignOf(one);
    if (sign) return sign;
  }
  return null;
}

/** Processes without a sign, which never get one later. Their files are read only once. */
const outside = new Set<string>();
const MAX_OUTSIDE = 1000;

function ownSignOf({ pid, start }: Process): Sign | null {
  const key = `${pid}:${start}`;
  if (outside.has(key)) return null;
  const [id, unit] = readVariables(pid, [COOKIE, "RNIX_UNIT"]);
  if (id) return { id };
  if (unit) return { unit };
  if (pid !== process.pid && holdsKernel(pid)) return { kernel: pid };
  if (outside.size >= MAX_OUTSIDE) outside.clear();
  outside.add(key);
  return null;
}

function ownerOf(sign: Sign, programs: Programs): string | undefined {
  if ("mark" in sign) return programs.byMark(sign.mark);
  if ("id" in sign) return programs.byCookie(sign.id);
  return "unit" in sign ? sign.unit : undefined;
}

function isOurs(sign: Sign, programs: Programs): boolean {
  if ("mark" in sign) return programs.issuedMark(sign.mark);
  return "id" in sign && programs.issuedId(sign.id);
}

interface Ancestry {
  /** The process, its parent, and so on. */
  processes: Process[];
  belowThisProcess: boolean;
}

/** "unclear": its ancestors end faster than they can be read. */
function ancestryOf(pid: number): Ancestry | "gone" | "unclear" {
  for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
    const line = readAncestry(pid);
    if (line) return line;
  }
  return readStat(pid) ? "unclear" : "gone";
}

/** Returns null when an ancestor has ended meanwhile. */
function readAncestry(pid: number): Ancestry | null {
  const processes: Process[] = [];
  let row = readStat(pid);
  while (row) {
    processes.push(row);
    // The first process of a container adopts orphans of all programs.
    if (row.ppid === process.pid) return { processes, belowThisProcess: process.pid !== 1 };
    if (row.ppid < 1) return { processes, belowThisProcess: false };
    const above = readStat(row.ppid);
    // A parent is never younger than its child: that PID was reused.
    if (above && Number(above.start) <= Number(row.start)) row = above;
    else if (isHidden(row, above)) return { processes, belowThisProcess: false };
    else row = null;
  }
  return null;
}

/** Returns true for a parent of another user that the system hides (`hidepid`). It holds none of this user's kernels. */
function isHidden(row: Process, above: Process | null): boolean {
  return above === null && readStat(row.pid)?.ppid === row.ppid;
}

const ATTEMPTS = 10;

/** Returns true when this process of the same user holds a kernel. */
export function holdsKernel(pid: number): boolean {
  const folder = `/proc/${pid}/fd`;
  let names: string[];
  try {
    names = readdirSync(folder);
  } catch {
    return false; // It has ended, or is another user's.
  }
  for (const name of names) {
    const target = readLink(`${folder}/${name}`);
    if (target?.startsWith(KERNEL_LINK)) return true;
    // The folder can be listed and its links not (a container's root without ptrace): no other link is readable.
    if (target === null && !isReadable(`${folder}/${name}`)) return false;
  }
  return false;
}

/** Returns true for a readable link, and for one that was closed meanwhile. */
function isReadable(link: string): boolean {
  try {
    readlinkSync(link);
    return true;
  } catch (error) {
    return errnoOf(error) === "ENOENT";
  }
}
