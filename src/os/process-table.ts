/** The process table of the system, and whose run a process of it belongs to. */

import { readdirSync, readFileSync, readlinkSync } from "node:fs";
import { readdir } from "node:fs/promises";
import { errnoOf } from "../lib/error-detail.ts";
import { isLimited, KERNEL_LINK, type ProcessTag, readGivenMark, readTag, readTagOf } from "./process-tag.ts";

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

function withDescendants(found: Process[], all: Iterable<Process>): Process[] {
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

export const linuxTable: ProcessTable = {
  find: async (pid) => readStat(pid),
  members(traces) {
    return new Promise((resolve, reject) => {
      requests.push({ traces, resolve, reject });
      if (!scanning) void scanAll();
    });
  },
  boot() {
    boot ??= readFileSync("/proc/sys/kernel/random/boot_id", "latin1").trim();
    return boot;
  },
};

type Members = Map<string, Process[]>;

interface Request {
  traces: readonly Trace[];
  resolve(found: Members): void;
  reject(error: unknown): void;
}

/** Coalesces requests: all callers during a scan share the next scan. */
let requests: Request[] = [];
let scanning = false;

async function scanAll(): Promise<void> {
  scanning = true;
  while (requests.length > 0) {
    const answered = requests;
    requests = [];
    try {
      const found = await scan(answered.flatMap(({ traces }) => traces));
      for (const { resolve } of answered) resolve(found);
    } catch (error) {
      for (const { reject } of answered) reject(error);
    }
  }
  scanning = false;
}

async function scan(traces: readonly Trace[]): Promise<Members> {
  const oldest = Math.min(...traces.map((trace) => Number(trace.leader?.start ?? 0)));
  const all = new Map<number, Process>();
  const found = new Map<string, Process[]>(traces.map((trace) => [trace.id, []]));
  const traceOf = matcher(traces);
  let pause = performance.now() + SLICE_MS;
  for (const name of await readdir("/proc")) {
    const pid = Number(name);
    if (!(pid > 1) || pid === process.pid) continue;
    if (performance.now() > pause) {
      await new Promise((resolve) => setImmediate(resolve));
      pause = performance.now() + SLICE_MS;
    }
    const row = readStat(pid);
    // A process older than the program was not started by it.
    if (!row || row.zombie || Number(row.start) < oldest) continue;
    all.set(pid, row);
    const trace = traceOf(row);
    if (trace) found.get(trace.id)?.push(row);
  }
  for (const [id, members] of found) found.set(id, withDescendants(members, all.values()));
  return found;
}

let boot: string | undefined;

/** Maximum time that a scan blocks the thread before it yields. */
const SLICE_MS = 2;

type Matcher = (row: Process) => Trace | undefined;

/** Attributes a process to a trace, by the cheapest sign first. */
function matcher(traces: readonly Trace[]): Matcher {
  const groups = new Map<number, Trace>();
  const cookies = new Map<string, Trace>();
  const marks = new Map<string, Trace>();
  const pipes = new Map<string, Trace>();
  for (const trace of traces) {
    if (trace.leader && trace.leader.boot === linuxTable.boot()) groups.set(trace.leader.pid, trace);
    cookies.set(trace.id, trace);
    if (trace.mark) marks.set(trace.mark, trace);
    for (const pipe of trace.pipes) pipes.set(pipe, trace);
  }
  return (row) => {
    const hit =
      ofGroup(groups.get(row.pgid)) ??
      cookies.get(readCookie(row.pid) ?? "") ??
      marks.get(readTag(row.pid) ?? "") ??
      ofPipe(row.pid, pipes);
    return hit && Number(row.start) >= Number(hit.leader?.start ?? 0) ? hit : undefined;
  };
}

/** The group belongs to the program unless its number was reused by another leader. */
function ofGroup(trace: Trace | undefined): Trace | undefined {
  if (!trace?.leader) return undefined;
  const leader = readStat(trace.leader.pid);
  return leader && leader.start !== trace.leader.start ? undefined : trace;
}

export function readCookie(pid: number): string | undefined {
  return readVariables(pid, [COOKIE])[0];
}

/** Returns the command line of a process for display; empty when it has ended. */
export function readCommand(pid: number): string {
  return (readProc(`/proc/${pid}/cmdline`) ?? "").replaceAll("\0", " ").trim().slice(0, COMMAND_CHARS);
}

const COMMAND_CHARS = 200;

/** Reads variables of a process's initial environment, in their order; undefined when missing or not readable. */
export function readVariables(pid: number, names: readonly string[]): (string | undefined)[] {
  const environment = `\0${readProc(`/proc/${pid}/environ`) ?? ""}\0`;
  return names.map((name) => {
    const before = `\0${name}=`;
    const at = environment.indexOf(before);
    const from = at + before.length;
    return at < 0 ? undefined : environment.slice(from, environment.indexOf("\0", from));
  });
}

function ofPipe(pid: number, pipes: ReadonlyMap<string, Trace>): Trace | undefined {
  if (pipes.size === 0) return undefined;
  const folder = `/proc/${pid}/fd`;
  let names: string[];
  try {
    names = readdirSync(folder);
  } catch {
    return undefined; // It has ended, or is another user's.
  }
  for (const name of names.slice(0, MAX_DESCRIPTORS)) {
    const trace = pipes.get(readLink(`${folder}/${name}`) ?? "");
    if (trace) return trace;
  }
  return undefined;
}

/** Maximum descriptors to read: a server may have thousands, and an inherited pipe is among the first. */
const MAX_DESCRIPTORS = 256;

/** Returns the target of a descriptor, such as "pipe:[123]"; null when it is closed. */
export function readLink(path: string): string | null {
  try {
    return readlinkSync(path);
  } catch {
    return null; // Closed meanwhile.
  }
}

/** Returns null when there is no such process. */
export function readStat(pid: number): Process | null {
  const stat = readProc(`/proc/${pid}/stat`);
  if (stat === null) return null;
  // The name is in brackets and may contain any character: parse after the last bracket.
  const [state, ppid, pgid, ...more] = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  const start = more[STARTTIME];
  if (start === undefined) return null;
  return { pid, ppid: Number(ppid), pgid: Number(pgid), start, zombie: state === "Z" || state === "X" };
}

/** Whether the process is stopped or has ended. */
export function isStopped(pid: number): boolean {
  const stat = readProc(`/proc/${pid}/stat`);
  return stat === null || "TtZX".includes(stat.charAt(stat.lastIndexOf(")") + 2));
}

/** Field 22 of proc(5), counted from the one after pgrp. */
const STARTTIME = 16;

/** Returns null when the process has ended or is another user's. */
export function readProc(path: string): string | null {
  try {
    return readFileSync(path, "latin1");
  } catch {
    return null;
  }
}

export function processTable(): ProcessTable {
  return process.platform === "linux" ? linuxTable : psTable(runPs);
}

async function runPs(argv: string[]): Promise<string> {
  const env = { PATH: "/bin:/usr/bin", LC_ALL: "C" };
  const proc = Bun.spawn(argv, { env, stdin: "ignore", stdout: "pipe", stderr: "ignore", timeout: PS_MS });
  return new Response(proc.stdout).text();
}

const PS_MS = 5000;

/** Runs `ps` and returns its output. `ps` exits with status 1 when it finds no process. */
type RunPs = (argv: string[]) => Promise<string>;

/** A program that clears its environment is not found. */
export function psTable(run: RunPs): ProcessTable {
  return {
    async find(pid) {
      const rows = parse(await run(["ps", "-o", COLUMNS, "-p", String(pid)]));
      return rows[0]?.process ?? null;
    },
    async members(traces) {
      const rows = parse(await run(WITH_ENVIRONMENT)).filter((row) => row.process.pid !== process.pid);
      const living = rows.filter((row) => !row.process.zombie);
      const all = living.map((row) => row.process);
      return new Map(
        traces.map((trace) => {
          const leader = rows.find((row) => row.process.pid === trace.leader?.pid)?.process;
          const found = living.filter((row) => isMember(row, trace, leader)).map((row) => row.process);
          return [trace.id, withDescendants(found, all)];
        }),
      );
    },
    boot: () => "",
  };
}

const COLUMNS = "pid=,ppid=,pgid=,stat=,lstart=";

/** The BSDs print the environment with -E, the Linux one with the old "e". */
const WITH_ENVIRONMENT =
  process.platform === "darwin"
    ? ["ps", "-A", "-E", "-ww", "-o", `${COLUMNS},command=`]
    : ["ps", "axeww", "-o", `${COLUMNS},args=`];

interface Row {
  process: Process;
  /** Command line and environment. */
  command: string;
}

function isMember(row: Row, trace: Trace, leader: Process | undefined): boolean {
  const recycled = leader !== undefined && leader.start !== trace.leader?.start;
  if (trace.leader && row.process.pgid === trace.leader.pid && !recycled) return true;
  return ` ${row.command} `.includes(` ${COOKIE}=${trace.id} `);
}

function parse(output: string): Row[] {
  return output.split("\n").flatMap((line) => {
    const match = PS_LINE.exec(line);
    if (!match) return [];
    const [, pid, ppid, pgid, stat = "", start = "", command = ""] = match;
    const numbers = { pid: Number(pid), ppid: Number(ppid), pgid: Number(pgid) };
    return [{ process: { ...numbers, start, zombie: stat.startsWith("Z") }, command }];
  });
}

const PS_LINE = /^\s*(\d+)\s+(\d+)\s+(\d+)\s+(\S+)\s+(\S+\s+\S+\s+\S+\s+[\d:]+\s+\d{4})(?:\s+(.*))?$/;

/**
 * The run to which a process belongs. "unknown run": an ended run left it, or its run can't be determined. "other
 * kernel": another kernel started it. "no run": a user's own program. "gone": the process has ended.
 */
export type ProcessOwner = { uuid: string } | "unknown run" | "other kernel" | "no run" | "gone";

interface Programs {
  /** Returns the owner of the running program with this PID. */
  byLeader(pid: number): string | undefined;
  byMark(mark: ProcessTag): string | undefined;
  /** Returns the owner of the program with this id, which is the value of its cookie. */
  byCookie(id: string): string | undefined;
  issuedMark(mark: ProcessTag): boolean;
  issuedId(id: string): boolean;
}

/**
 * Decides by descent, which no program can change. When a parent has ended, decides by the mark and the cookie of the
 * process or an ancestor. All descendants of this process, a subreaper, were started by its programs.
 */
export function ownerOfProcess(pid: number, programs: Programs): ProcessOwner {
  if (pid === process.pid) return "no run";
  const line = ancestryOf(pid);
  if (line === "gone") return line;
  if (line === "unclear") return "unknown run";
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
