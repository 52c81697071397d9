/** Finds and ends programs that dead kernels left running. */

import { existsSync, readdirSync, statSync } from "node:fs";
import { readFile, rm } from "node:fs/promises";
import { join } from "node:path";
import { errnoOf } from "../lib/error-detail.ts";
import { SyscallError } from "../plugin/index.ts";
import { countdown, endProcesses, killMarked, markedProcesses } from "./end-processes.ts";
import { LEDGER_SUFFIX, LEDGER_VERSION, LedgerHeader, LedgerLine } from "./ledger.ts";
import { isRunning, type Process, type ProcessTable, processTable, type Trace } from "./process-table.ts";
import { kernelMark } from "./process-tag.ts";

/** A program of a background unit that a dead kernel left running. */
export interface LeftUnit {
  /** The UUID of the unit's run. */
  uuid: string;
  unit: string;
}

/** Whether a run takes this program over. A sweep leaves it alone, and the ledger that has it. */
export type KeepsUnit = (left: LeftUnit) => Promise<boolean>;

/** A program that a dead kernel left running. */
export interface SweptProgram {
  kernelId: string;
  /** Empty when its run is unknown. */
  uuid: string;
  call?: string;
  argv: string[];
  /** PIDs of the program and its descendants that were running. */
  pids: number[];
  /** False when it did not end. Its ledger stays for the next sweep. */
  ended: boolean;
}

/** How long a program may take to end by itself. */
const GRACE_MS = 2000;

/**
 * Ends the programs that dead kernels left running, and removes their ledgers. Called at start, when this kernel holds
 * its own lock. A process matches a program of a ledger when PID, start time and boot agree, or when it carries the
 * program's cookie or mark. So a reused PID is never signalled. Sweeps kernels one by one, and the programs of a kernel
 * together. Errors are thrown after all kernels are swept.
 */
export async function sweepChildren(
  ledgerDir: string,
  kernelAlive: (kernelId: string) => boolean,
  { graceMs = GRACE_MS, keeps = async () => false }: { graceMs?: number; keeps?: KeepsUnit } = {},
): Promise<SweptProgram[]> {
  const table = processTable();
  const ended: SweptProgram[] = [];
  const faults: unknown[] = [];
  for (const { kernelId, path } of deadLedgers(ledgerDir, kernelAlive)) {
    try {
      const programs = await openPrograms(path);
      const kept = new Set<Program>();
      for (const program of programs) if (await isKept(program, table, keeps)) kept.add(program);
      const others = programs.filter((program) => !kept.has(program));
      const left = await endPrograms(kernelId, others, table, graceMs);
      left.push(...(await endUnknown(kernelId, table, graceMs)));
      ended.push(...left);
      if (kept.size === 0 && left.every((program) => program.ended)) await rm(path, { force: true });
    } catch (thrown) {
      faults.push(thrown);
    }
  }
  if (faults.length > 0) throw faults[0];
  return ended;
}

/** Finds the programs that `sweep` would end, for `rnix doctor`, without ending them. */
export async function leftRunning(
  ledgerDir: string,
  kernelAlive: (kernelId: string) => boolean,
  table: ProcessTable,
): Promise<Omit<SweptProgram, "ended">[]> {
  const left: Omit<SweptProgram, "ended">[] = [];
  for (const { kernelId, path } of deadLedgers(ledgerDir, kernelAlive)) {
    const programs = await openPrograms(path);
    const known = new Set<number>();
    const found = await table.members(programs.map((program) => program.trace));
    for (const { uuid, call, argv, trace } of programs) {
      const pids = (found.get(trace.id) ?? []).map((member) => member.pid);
      for (const pid of pids) known.add(pid);
      if (pids.length > 0) left.push({ kernelId, uuid, call, argv, pids });
    }
    const pids = unknownPrograms(kernelId).filter((pid) => !known.has(pid));
    if (pids.length > 0) left.push(unknownOf(kernelId, pids));
  }
  return left;
}

/**
 * Lists synchronously: starting the thread pool costs more than the rest of a command's start. Lists regular files
 * only: reading a pipe would block.
 */
function deadLedgers(
  ledgerDir: string,
  kernelAlive: (kernelId: string) => boolean,
): { kernelId: string; path: string }[] {
  if (!existsSync(ledgerDir)) return [];
  return readdirSync(ledgerDir)
    .filter((name) => name.endsWith(LEDGER_SUFFIX))
    .map((name) => ({ kernelId: name.slice(0, -LEDGER_SUFFIX.length), path: join(ledgerDir, name) }))
    .filter(({ path }) => statSync(path, { throwIfNoEntry: false })?.isFile())
    .filter(({ kernelId }) => !kernelAlive(kernelId));
}

interface Program {
  uuid: string;
  call?: string;
  unit?: string;
  argv: string[];
  trace: Trace;
}

/**
 * Returns the programs of a ledger that have no `end` line. A torn last line is ignored. A ledger that another sweep
 * removed has no programs left.
 */
async function openPrograms(path: string): Promise<Program[]> {
  const [first = "", ...lines] = (await textOf(path)).split("\n");
  const header = LedgerHeader.safeParse(parsed(first));
  if (header.success && header.data.v > LEDGER_VERSION) {
    const message = `${path} was written by a newer Rnix (version ${header.data.v}, this one knows ${LEDGER_VERSION}). Use that one.`;
    throw new SyscallError("INVALID", message);
  }
  const open = new Map<string, Program>();
  for (const text of lines) {
    const line = LedgerLine.safeParse(parsed(text)).data;
    if (line?.t === "intent") {
      const { id, uuid, call, unit, argv, mark } = line;
      open.set(id, { uuid, call, unit, argv, trace: { id, leader: null, mark, pipes: [] } });
    } else if (line?.t === "start") {
      const program = open.get(line.id);
      const leader = { pid: line.pid, start: line.start, boot: line.boot };
      if (program) program.trace = { ...program.trace, leader };
    } else if (line?.t === "unit") {
      const program = open.get(line.id);
      if (program) program.unit = line.unit;
    } else if (line) {
      open.delete(line.id);
    }
  }
  return [...open.values()];
}

/** The identity of a program is exact on Linux only. */
async function isKept(
  { uuid, unit, trace }: Program,
  table: ProcessTable,
  keeps: KeepsUnit,
): Promise<boolean> {
  const { leader } = trace;
  if (process.platform !== "linux" || unit === undefined || leader?.boot !== table.boot()) return false;
  return (await isRunning(table, leader)) && (await keeps({ uuid, unit }));
}

async function endPrograms(
  kernelId: string,
  programs: Program[],
  table: ProcessTable,
  graceMs: number,
): Promise<SweptProgram[]> {
  if (programs.length === 0) return [];
  const found = await table.members(programs.map((program) => program.trace));
  const all = await Promise.all(
    programs.map(async ({ uuid, call, argv, trace }) => {
      const members = found.get(trace.id) ?? [];
      const pids = new Set(members.map((member) => member.pid));
      const left = await endProcesses({
        table,
        find: () => findAgain(table, trace, members),
        group: trace.leader?.pid,
        graceLeft: countdown(graceMs),
        killAsFound: () => killMarked(trace.mark, (pid) => pids.add(pid)),
      });
      return { kernelId, uuid, call, argv, pids: [...pids].slice(0, MAX_PIDS), ended: left.length === 0 };
    }),
  );
  return all.filter(({ pids }) => pids.length > 0);
}

/** Maximum PIDs in a report: an endless fork may have had thousands. */
const MAX_PIDS = 20;

/** Ends the programs that removed their own mark and carry only the kernel's. */
async function endUnknown(kernelId: string, table: ProcessTable, graceMs: number): Promise<SweptProgram[]> {
  const mark = kernelMark(kernelId);
  const pids = new Set(unknownPrograms(kernelId));
  if (pids.size === 0) return [];
  const left = await endProcesses({
    table,
    find: async () => markedProcesses(mark),
    graceLeft: countdown(graceMs),
    killAsFound: () => killMarked(mark, (pid) => pids.add(pid)),
  });
  return [{ ...unknownOf(kernelId, [...pids].slice(0, MAX_PIDS)), ended: left.length === 0 }];
}

function unknownPrograms(kernelId: string): number[] {
  return markedProcesses(kernelMark(kernelId)).map(({ pid }) => pid);
}

function unknownOf(kernelId: string, pids: number[]): Omit<SweptProgram, "ended"> {
  return { kernelId, uuid: "", argv: ["a program that hides its run"], pids };
}

/** Includes former descendants that have lost their parent. */
async function findAgain(table: ProcessTable, trace: Trace, before: Process[]): Promise<Process[]> {
  const found = new Map((await table.members([trace])).get(trace.id)?.map((member) => [member.pid, member]));
  for (const member of before) {
    if (await isRunning(table, member)) found.set(member.pid, member);
  }
  return [...found.values()];
}

async function textOf(path: string): Promise<string> {
  try {
    return await readFile(path, "utf8");
  } catch (thrown) {
    if (errnoOf(thrown) === "ENOENT") return "";
    throw thrown;
  }
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined; // Torn: rejected by the schema.
  }
}
