/** Ends processes: TERM, a grace period, then KILL until none is left; or at once, by their mark. */

import { readdirSync } from "node:fs";
import { SyscallError } from "../plugin/index.ts";
import { holdsKernel, isRunning, type Process, type ProcessTable, readStat } from "./process-table.ts";
import { type ProcessTag, readTag } from "./process-tag.ts";
import { killRepeatedly, pause, signal, terminate } from "./signal.ts";

interface EndOptions {
  table: ProcessTable;
  /** Finds the processes to end; called until it finds none. */
  find(): Promise<Process[]>;
  /** The group to which they may belong. */
  group?: number;
  /** Its members have received TERM already. */
  groupAsked?: boolean;
  /** Ms until KILL. Called repeatedly: the caller may shorten it. */
  graceLeft(): number;
  /** Reaps the zombies that this process has adopted. */
  reap?(): void;
  /** Kills processes that change their PID faster than `find` lists them. Returns those of its last scan. */
  killAsFound?(): readonly { pid: number }[];
}

/** Returns the processes that did not end: stuck in the system, or another user's. */
export async function endProcesses(o: EndOptions): Promise<{ pid: number }[]> {
  let members = await o.find();
  for (const member of members) {
    if (!(o.groupAsked && member.pgid === o.group)) await sendTerm(o.table, member);
  }
  while (members.length > 0 && o.graceLeft() > 0) {
    if (await allGone(o, members, o.graceLeft)) members = await o.find();
    // A program that keeps changing its PID would block the thread for the whole grace period.
    if (members.length > 0) await pause(Math.max(0, Math.min(FIND_PAUSE_MS, o.graceLeft())));
  }
  let struck = members.length > 0 ? [] : (o.killAsFound?.() ?? []);
  for (let round = 0; (members.length > 0 || struck.length > 0) && round < KILL_ROUNDS; round++) {
    members = await o.find();
    if (o.group && members.some((member) => member.pgid === o.group)) signal(-o.group, "SIGKILL");
    for (const member of members) await sendKill(o.table, member);
    struck = o.killAsFound?.() ?? [];
    await allGone(o, members, countdown(KILL_WAIT_MS));
    members = await o.find();
  }
  o.reap?.();
  return members.length > 0 ? members : [...struck];
}

/** Returns a function that gives the ms left of a period that begins now. */
export function countdown(ms: number): () => number {
  const end = performance.now() + ms;
  return () => end - performance.now();
}

export function couldNotEnd(left: readonly { pid: number }[]): SyscallError {
  const pids = left.map((process) => process.pid).join(", ");
  return new SyscallError("INTERNAL", `Could not end process ${pids}, even by KILL. Rnix will try again.`);
}

/** Programs that start others as fast as they are killed end within a few rounds. */
const KILL_ROUNDS = 20;
const KILL_WAIT_MS = 250;
const FIND_PAUSE_MS = 10;
const LONGEST_PAUSE_MS = 50;

async function sendTerm(table: ProcessTable, member: Process): Promise<void> {
  if (await isRunning(table, member)) terminate(member.pid);
}

async function sendKill(table: ProcessTable, member: Process): Promise<void> {
  if (await isRunning(table, member)) signal(member.pid, "SIGKILL");
}

async function allGone(o: EndOptions, members: Process[], timeLeft: () => number): Promise<boolean> {
  for (let wait = 1; ; wait = Math.min(wait * 2, LONGEST_PAUSE_MS)) {
    o.reap?.();
    const running = await Promise.all(members.map((member) => isRunning(o.table, member)));
    if (!running.includes(true)) return true;
    const left = timeLeft();
    if (left <= 0) return false;
    await pause(Math.min(wait, left));
  }
}

/** Kills the processes with this mark, newest first: see `killRepeatedly`. Linux only. */
export function killMarked(mark: ProcessTag | null, onKill?: (pid: number) => void): { pid: number }[] {
  if (mark === null || process.platform !== "linux") return [];
  return killRepeatedly(newestFirst, (pid) => {
    if (!isMarked(pid, mark)) return null;
    signal(pid, "SIGKILL");
    onKill?.(pid);
    return { pid };
  });
}

/** Returns the processes with this mark, without the kernel, which carries its own mark. */
export function markedProcesses(mark: ProcessTag): Process[] {
  if (process.platform !== "linux") return [];
  return newestFirst().flatMap((pid) => {
    const found = isMarked(pid, mark) ? readStat(pid) : null;
    return found && !found.zombie ? [found] : [];
  });
}

function isMarked(pid: number, mark: ProcessTag): boolean {
  return readTag(pid) === mark && readStat(pid)?.zombie === false && !holdsKernel(pid);
}

function newestFirst(): number[] {
  return readdirSync("/proc")
    .map(Number)
    .filter((pid) => pid > 1 && pid !== process.pid)
    .reverse();
}
