/** Limits what programs use: together by control groups of Linux (cgroups(7)), each by limits of processes (prlimit(2)). */

import { existsSync, mkdirSync, readdirSync, readFileSync, rmdirSync, writeFileSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { constants, totalmem } from "node:os";
import { dirname, join } from "node:path";
import { errnoOf } from "../lib/error-detail.ts";
import { libc } from "./libc.ts";
import { isStopped, readProc } from "./process-table.ts";
import { signal, terminate } from "./signal.ts";

export interface ProgramLimits {
  /** Maximum processes of all programs of one run process together. */
  processes: number;
  /** Maximum share of the machine's memory, for the same programs together. */
  memoryPercent: number;
  /** Maximum open files of each program. The limits below are for each program, too; null is unlimited. */
  files: number;
  cpuSeconds: number | null;
  fileBytes: number | null;
}

export type LimitKind = "processes" | "memory" | keyof typeof RLIMITS;

/** Numbers of limits for a single process, as getrlimit(2) names them. */
export const RLIMITS = { files: 7, cpu: 0, file_size: 1 };
/** Time between the signal at the limit of processor time and KILL. */
const CPU_GRACE_S = 5;

/** Where groups can be made, and the files that limit one. Absent: it is not limited. */
export interface GroupMechanism {
  how: "cgroup v2" | "cgroup v1";
  processes?: { parent: string; limit: string; events: string };
  memory?: { parent: string; limit: string; events: string };
}

const ROOT = "/sys/fs/cgroup";
const PREFIX = "rnix-";
/** How far above the group of this process others are tried: its own may hold processes and no groups. */
const MAX_ABOVE = 3;
const RLIMIT_NPROC = 6;
/** A process that a busy machine does not run is not stopped yet. */
const MAX_LOOKS = 100;

/** Of the last joins, on average. Most systems take 0.1 ms, others 10: there, this thread does not wait for them. */
let joinMs = 0;
const SLOW_JOIN_MS = 1;
const JOINS_WEIGHED = 8;

let found: { mechanism: GroupMechanism | null } | undefined;

/** Finds out once where this process can make groups, by making one. */
export function groupMechanism(): GroupMechanism | null {
  found ??= { mechanism: process.platform === "linux" ? probe() : null };
  return found.mechanism;
}

export class ProgramGroup {
  readonly #name: string;
  readonly #limits: ProgramLimits;
  readonly #dirs: { dir: string; kind: "processes" | "memory"; events: string }[] = [];
  readonly #hits = new Map<string, number>();
  #isMade = false;
  #hasStarted = false;

  /** `id` is unique among all kernels. */
  constructor(id: string, limits: ProgramLimits) {
    this.#name = `${PREFIX}${id}`;
    this.#limits = limits;
  }

  /** Called before the start of a program: making a group takes longer than a shell needs to start. */
  prepare(): void {
    if (!this.#isMade) this.#make();
    this.#isMade = true;
  }

  /**
   * Called right after the start of a program, which is stopped until it is in the group, with what it has started
   * already: on a busy machine it runs before this thread does.
   */
  async add(pid: number): Promise<void> {
    this.prepare();
    if (!groupMechanism()?.processes) limitUser(pid, this.#limits.processes);
    limitEach(pid, this.#limits);
    if (this.#dirs.length === 0) return;
    const stopped: number[] = [];
    try {
      for (let found = [pid]; found.length > 0; ) {
        for (const one of found) signal(one, "SIGSTOP");
        for (const one of found) limitEach(one, this.#limits);
        stopped.push(...found);
        await Promise.all(found.map((one) => this.#take(one)));
        found = stopped.flatMap(childrenOf).filter((one) => !stopped.includes(one));
        // A parent that sees its child stop, as nsenter does, stops once more when both go on.
        if (found.length > 0) await allStopped(stopped);
      }
    } finally {
      // The children first, for the same reason.
      for (const one of stopped.reverse()) signal(one, "SIGCONT");
    }
  }

  begin(): void {
    this.#hasStarted = true;
  }

  /** Whether a program has begun since the last call. */
  takeStart(): boolean {
    const hasStarted = this.#hasStarted;
    this.#hasStarted = false;
    return hasStarted;
  }

  /** Which limits of the group were reached since the last call. */
  takeHits(): ("processes" | "memory")[] {
    return this.#dirs.flatMap(({ dir, kind, events }) => {
      const key = `${dir}/${events}`;
      const now = countIn(key);
      const before = this.#hits.get(key) ?? 0;
      this.#hits.set(key, now);
      return now > before ? [kind] : [];
    });
  }

  /** Its programs have ended. One that could not be ended keeps it: the next start of Rnix tries again. */
  remove(): void {
    for (const { dir } of this.#dirs.splice(0)) attempt(() => rmdirSync(dir));
    this.#isMade = false;
  }

  /** A process that has ended is in no group. */
  async #take(pid: number): Promise<void> {
    // A starting kernel removes empty groups, so ours may be gone.
    if (this.#dirs.some(({ dir }) => !existsSync(dir))) this.#make();
    const began = performance.now();
    await Promise.all(
      this.#dirs.map(({ dir }) => {
        const joined = [join(dir, "cgroup.procs"), `${pid}`, { flag: "r+" }] as const;
        if (joinMs >= SLOW_JOIN_MS) return writeFile(...joined).catch(unlessBug);
        return attempt(() => writeFileSync(...joined));
      }),
    );
    joinMs += (performance.now() - began - joinMs) / JOINS_WEIGHED;
  }

  #make(): void {
    this.#dirs.length = 0;
    const mechanism = groupMechanism();
    const values = {
      processes: this.#limits.processes,
      memory: Math.floor((totalmem() * this.#limits.memoryPercent) / 100),
    };
    for (const kind of ["processes", "memory"] as const) {
      const place = mechanism?.[kind];
      if (!place) continue;
      const dir = join(place.parent, this.#name);
      attempt(() => {
        mkdirSync(dir, { recursive: true });
        writeFileSync(join(dir, place.limit), `${values[kind]}`);
        this.#dirs.push({ dir, kind, events: place.events });
      });
    }
  }
}

/** Removes the groups that dead kernels have left. One with processes, or of a live kernel, stays. */
export function removeEmptyGroups(): void {
  const { processes, memory } = groupMechanism() ?? {};
  for (const parent of new Set([processes?.parent, memory?.parent])) {
    if (parent === undefined) continue;
    for (const name of readdirSync(parent))
      if (name.startsWith(PREFIX)) attempt(() => rmdirSync(join(parent, name)));
  }
}

function probe(): GroupMechanism | null {
  const lines = readFileSync("/proc/self/cgroup", "latin1").trim().split("\n");
  const own = new Map(lines.map((line) => [line.split(":")[1] ?? "", line.split(":").slice(2).join(":")]));
  const processes = { limit: "pids.max", events: "pids.events" };
  if (existsSync(join(ROOT, "cgroup.controllers"))) {
    const memory = { limit: "memory.max", events: "memory.events" };
    const parent = usable(join(ROOT, own.get("") ?? "/"), [processes.limit, memory.limit]);
    if (parent === null) return null;
    return { how: "cgroup v2", processes: { parent, ...processes }, memory: { parent, ...memory } };
  }
  const memory = { limit: "memory.limit_in_bytes", events: "memory.oom_control" };
  const pidsParent = usable(join(ROOT, "pids", own.get("pids") ?? "/"), [processes.limit]);
  const memoryParent = usable(join(ROOT, "memory", own.get("memory") ?? "/"), [memory.limit]);
  if (pidsParent === null && memoryParent === null) return null;
  return {
    how: "cgroup v1",
    ...(pidsParent && { processes: { parent: pidsParent, ...processes } }),
    ...(memoryParent && { memory: { parent: memoryParent, ...memory } }),
  };
}

/** The folder, or one above it, in which a group has these files; null without one. */
function usable(from: string, files: readonly string[]): string | null {
  let at = from;
  for (let above = 0; above <= MAX_ABOVE && at.startsWith(ROOT) && at !== ROOT; above++, at = dirname(at)) {
    const dir = join(at, `${PREFIX}probe-${process.pid}`);
    try {
      mkdirSync(dir);
      const has = files.every((file) => existsSync(join(dir, file)));
      rmdirSync(dir);
      if (has) return at;
    } catch (error) {
      if (errnoOf(error) === undefined) throw error;
    }
  }
  return null;
}

/** Names what limits programs on this machine. Anything else is not limited. */
export function limitsText(): string {
  if (process.platform !== "linux") return "none";
  const { how, processes, memory } = groupMechanism() ?? {};
  const isCounted = !processes && process.getuid?.() !== 0;
  const groups = [...(processes ? ["processes"] : []), ...(memory ? ["memory"] : [])];
  const each = [...(isCounted ? ["processes"] : []), "open files", "processor time", "file size"];
  return [...(how ? [`${how} (${groups.join(", ")})`] : []), `rlimit (${each.join(", ")})`].join(", ");
}

/** Its own limits may be lower. Outside of a sandbox, root can raise them. */
function limitEach(pid: number, { files, cpuSeconds, fileBytes }: ProgramLimits): void {
  const values = { files, cpu: cpuSeconds, file_size: fileBytes };
  for (const kind of ["files", "cpu", "file_size"] as const) {
    const resource = RLIMITS[kind];
    const most = values[kind];
    const now = most === null ? null : libc()?.limit(resource, pid);
    if (most === null || !now) continue;
    const hard = BigInt(most + (kind === "cpu" ? CPU_GRACE_S : 0));
    if (now.hard <= hard) continue;
    const soft = now.soft < BigInt(most) ? now.soft : BigInt(most);
    libc()?.setLimit(resource, soft, hard, pid);
  }
}

/** Without groups: a limit on all processes of the user, for this program. The system does not apply it to root. */
function limitUser(pid: number, more: number): void {
  const [, , , tasks = ""] = readFileSync("/proc/loadavg", "latin1").split(" ");
  const most = BigInt(Number(tasks.split("/")[1] ?? 0) + more);
  const now = libc()?.limit(RLIMIT_NPROC, pid);
  if (now && now.hard > most) libc()?.setLimit(RLIMIT_NPROC, most, most, pid);
}

/** Resolves when all of these are stopped or have ended. */
async function allStopped(pids: readonly number[]): Promise<void> {
  for (let look = 0; look < MAX_LOOKS && !pids.every(isStopped); look++) await Bun.sleep(1);
}

/** `max` of pids.events, `oom_kill` of memory.events and memory.oom_control. */
function countIn(file: string): number {
  try {
    const text = readFileSync(file, "latin1");
    const pattern = file.endsWith("pids.events") ? /^max (\d+)$/m : /^oom_kill (\d+)$/m;
    return Number(pattern.exec(text)?.[1] ?? 0);
  } catch (error) {
    if (errnoOf(error) === undefined) throw error;
    return 0;
  }
}

/** What the system refuses does not stop the program. */
function attempt(change: () => void): void {
  try {
    change();
  } catch (error) {
    unlessBug(error);
  }
}

function unlessBug(error: unknown): void {
  if (errnoOf(error) === undefined) throw error;
}

/** A signal to the whole group would end the program outside first, and with it the namespace, without any grace. */
export function terminateNested(group: number): void {
  const inside = members(group);
  for (const pid of inside.length > 0 ? inside : [-group]) terminate(pid);
}

/** The program itself. Between it and this process is the first one of its namespace. */
export function programInside(pid: number): number {
  const [init = pid] = childrenOf(pid);
  const [program = init] = childrenOf(init);
  return program;
}

/** How the program itself has ended: a signal is reported as shells do. */
export function exitInside<E extends { code: number | null; signal: string | null }>(exit: E): E {
  const number = (exit.code ?? 0) - SIGNAL_CODES;
  const [name] = Object.entries(constants.signals).find(([, one]) => one === number) ?? [];
  return name === undefined ? exit : { ...exit, code: null, signal: name };
}

const SIGNAL_CODES = 128;

/** The children of a process's main thread; none when the process is gone. */
export function childrenOf(pid: number): number[] {
  const text = readProc(`/proc/${pid}/task/${pid}/children`) ?? "";
  return text.split(" ").filter(Boolean).map(Number);
}

/** The processes of the group that have a PID in a namespace below this one. */
function members(group: number): number[] {
  const own = numbersOf("self", "NSpid").length;
  return readdirSync("/proc")
    .map(Number)
    .filter(
      (pid) => pid > 0 && numbersOf(pid, "NSpgid")[0] === group && numbersOf(pid, "NSpid").length > own,
    );
}

/** Its PID in its own namespace. */
export function insideNumber(pid: number): number | undefined {
  return numbersOf(pid, "NSpid").at(-1);
}

/** A PID as each namespace sees it, the outermost first; empty when the process is gone. */
function numbersOf(pid: number | "self", field: "NSpid" | "NSpgid"): number[] {
  try {
    const status = readFileSync(`/proc/${pid}/status`, "utf8");
    const [, line = ""] = new RegExp(`^${field}:\\s+(.*)$`, "m").exec(status) ?? [];
    return line.split(/\s+/).filter(Boolean).map(Number);
  } catch {
    return []; // It has ended.
  }
}
