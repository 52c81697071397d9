/** Finds the process or recorded run that a request names. */

import type { PID, ProcInfo } from "../../../kernel/types.ts";
import { expected } from "../../../lib/error-detail.ts";
import { SyscallError } from "../../../plugin/index.ts";
import type { Target } from "../../../protocol/methods.ts";
import type { CollectedRun } from "../../../store/runs/collected-runs.ts";
import type { Run } from "../../records/recorded-run.ts";
import type { Services } from "../../services.ts";

/** The process that a request names: a live one of this kernel, or a record. */
export type FoundRun = { live: true; pid: PID; info: ProcInfo } | { live: false; run: Run; info: ProcInfo };

/**
 * Finds a process by PID, UUID or unique prefix of one; where both are given the UUID counts. A resumed
 * run is found by its earlier PIDs, too: a PID is never reused (design §2).
 */
export async function findRun(system: Services, target: Target): Promise<FoundRun> {
  const run = await find(system, target);
  if (system.viewer) (await import("./visible-runs.ts")).requireVisible(system, run);
  return run;
}

async function find(system: Services, target: Target): Promise<FoundRun> {
  if (target.uuid !== undefined) return byUuid(system, target.uuid.toLowerCase(), target.cwd);
  if (target.pid === undefined) {
    throw new SyscallError("INVALID", 'The request names no process: expected "pid" or "uuid".');
  }
  const live = liveByPid(system, target.pid);
  if (live) return { live: true, pid: live.pid, info: live };
  const history = await system.history();
  const run = await history.byPid(target.pid, target.cwd);
  if (!run) {
    const gone = await history.collected({ pid: target.pid }, target.cwd);
    throw gone ? wasCollected(gone) : noProcess(`PID ${target.pid}`);
  }
  return { live: false, run, info: run.info };
}

/** As `findRun`, for actions that need a live process of this kernel. */
export async function findLiveRun(system: Services, target: Target, toDo: string): Promise<FoundRun> {
  const found = await findRun(system, target);
  if (!found.live && found.info.ended_at_ms === null && found.info.state !== "suspended") {
    const message = `PID ${found.info.pid} belongs to another rnix (started with --no-daemon): it can't be ${toDo} from here. Stop that command itself.`;
    throw new SyscallError("UNAVAILABLE", message);
  }
  return found;
}

/** The PID of a live run; fails with NOT_FOUND for another: `what` of it can't be changed. */
export function requireLive(found: FoundRun, what: string): PID {
  if (found.live) return found.pid;
  const { pid, exit_reason, state } = found.info;
  const ended = state === "suspended" ? "is suspended" : `has ended (${exit_reason})`;
  const message = `PID ${pid} ${ended}: only ${what} of a live run can be changed. \`rnix ps\` lists them.`;
  throw new SyscallError("NOT_FOUND", message);
}

/** Fails with INVALID for a supervisor and for a program: only agents have a conversation. */
export function requireAgent({ info }: FoundRun, toDo: string): void {
  if (info.kind === "agent") return;
  const message = `PID ${info.pid} is a ${info.kind === "command" ? "program" : "supervisor"}: only the run of an agent can be ${toDo}.`;
  throw new SyscallError("INVALID", message);
}

/** Whether the run has a process, in this kernel or another one. */
export function isLive({ live, info }: FoundRun): boolean {
  return live || (info.ended_at_ms === null && info.state !== "suspended");
}

/** Where the records of a process are, live or not. */
export async function recordsOf(system: Services, found: FoundRun): Promise<Run> {
  if (!found.live) return found.run;
  const run = await (await system.history()).byUuid(found.info.uuid);
  if (!run) {
    const message = `Nothing is on disk yet of PID ${found.info.pid} (${found.info.uuid}).`;
    throw new SyscallError("NOT_FOUND", message);
  }
  return run;
}

/** Writes the newest recorded syscalls, which are written in batches. If the disk rejects them, only those before them are listed. */
export function flushEvents({ kernel, logger }: Services, pid: number): void {
  try {
    kernel.processes.flushEvents(pid);
  } catch (error) {
    logger.warn(`PID ${pid}`, expected(error).message);
  }
}

function liveByPid({ kernel }: Services, pid: PID): ProcInfo | undefined {
  const infos = kernel.processes.infos();
  return infos.find((info) => info.pid === pid) ?? infos.find((info) => info.earlier_pids.includes(pid));
}

async function byUuid(system: Services, prefix: string, cwd: string | undefined): Promise<FoundRun> {
  const exact = system.kernel.processes.infos().find((info) => info.uuid === prefix);
  if (exact) return { live: true, pid: exact.pid, info: exact };
  const history = await system.history();
  const uuids = new Set(await history.find(prefix, cwd));
  // Checked after the disk was read, because a process may have ended meanwhile.
  const live = system.kernel.processes.infos().filter((info) => info.uuid.startsWith(prefix));
  for (const { uuid } of live) uuids.add(uuid);
  if (uuids.size > 1) {
    const some = [...uuids].sort().slice(0, 5).join(", ");
    const message = `UUID prefix "${prefix}" fits ${uuids.size} processes: ${some}. Write more of it.`;
    throw new SyscallError("INVALID", message);
  }
  const [info] = live;
  if (info) return { live: true, pid: info.pid, info };
  const [uuid] = uuids;
  const run = uuid === undefined ? undefined : await history.byUuid(uuid, cwd);
  if (!run) {
    const gone = await history.collected({ prefix }, cwd);
    throw gone ? wasCollected(gone) : noProcess(`a UUID beginning "${prefix}"`);
  }
  return { live: false, run, info: run.info };
}

function noProcess(what: string): SyscallError {
  return new SyscallError("NOT_FOUND", `No process with ${what}. \`rnix ps -a\` lists what there is.`);
}

function wasCollected({ uuid, pid, ts }: CollectedRun): SyscallError {
  const whose = pid === null ? "" : ` (PID ${pid})`;
  const message = `Run ${uuid}${whose} was collected by gc at ${ts}: its record is gone. \`rnix config\` shows how long records are kept (retention_age, retention_runs, retention_size).`;
  return new SyscallError("NOT_FOUND", message);
}
