/** Starts and stops the process of a supervisor's child. */

import { type Clock, onceAborted, orAborted, withDeadline, withTimeout } from "../../lib/clock.ts";
import { messageOf } from "../../lib/error-detail.ts";
import { SIGKILL, SIGTERM } from "../../lib/signals.ts";
import { type Child, type ExecRequest, type ExitInfo, SyscallError } from "../../plugin/index.ts";
import { runProgram } from "../files/run-program.ts";
import type { Task } from "../lifetime/process-runner.ts";
import type { Process } from "../process/process.ts";
import { bareAgent } from "../process/process-spec.ts";
import type { ProcessTable } from "../process/process-table.ts";
import { killed, SUSPENDED } from "../process/verdict.ts";
import type { Agents } from "../tiers/agents.ts";
import type { Processes } from "../tiers/processes.ts";
import type { ExitStatus, PID, SpawnOpts } from "../types.ts";
import {
  type ChildSpec,
  type ChildStart,
  type CommandRequest,
  type Shutdown,
  type SupervisorSpec,
  shutdownOf,
} from "./spec.ts";

/** The kernel's parts, and the start of a supervisor below another one. */
export type SupervisorParts = Agents & {
  spawnSupervisor(spec: SupervisorSpec, parentPid: PID): Promise<PID>;
};

/** Maximum time to read a plan; building the process has deadlines of its own. */
const PLAN_MS = 60_000;

/**
 * Starts the process of a child below its supervisor. If the supervisor must stop meanwhile, it ends what there is of
 * the child and does not wait for the start.
 */
export async function startChild(
  parts: SupervisorParts,
  supervisor: Process,
  child: ChildSpec,
): Promise<Process> {
  const known = new Set(supervisor.family.children);
  const ignore = onceAborted(supervisor.signal, () => {
    for (const pid of supervisor.family.children) {
      if (!known.has(pid)) parts.table.find(pid)?.stop(endOfStarting(supervisor.stopped));
    }
  });
  try {
    return parts.table.get(await spawn(parts, supervisor, child));
  } finally {
    ignore();
  }
}

/** The end of a child that is starting while its supervisor stops. */
function endOfStarting(stopped: ExitStatus | undefined): ExitStatus {
  return stopped?.code === SUSPENDED.code ? stopped : killed(SIGTERM, false);
}

async function spawn(parts: SupervisorParts, supervisor: Process, child: ChildSpec): Promise<PID> {
  const { start } = child;
  switch (start.kind) {
    case "supervisor":
      return await parts.spawnSupervisor(start.spec, supervisor.pid);
    case "agent": {
      const resumed = await resumeFormer(parts, supervisor, child, start);
      if (resumed !== undefined) return resumed;
      const { intent, agent, opts } = await planned(parts.clock, supervisor.signal, start.plan);
      return await parts.processes.spawn(intent, agent, { ...opts, parentPid: supervisor.pid });
    }
    case "command":
      return await spawnCommand(parts, supervisor, child, start);
  }
}

/** Resumes a run of this child that was cut off, if there is one and it can be resumed. */
async function resumeFormer(
  parts: SupervisorParts,
  supervisor: Process,
  { id }: ChildSpec,
  { before }: Extract<ChildStart, { kind: "agent" }>,
): Promise<PID | undefined> {
  if (!before) return undefined;
  try {
    const left = await before(supervisor.signal);
    if (!left) return undefined;
    const { pid } = await parts.resumer().resume(left.uuid, left.agent, {
      ...left.opts,
      parentPid: supervisor.pid,
    });
    return pid;
  } catch (thrown) {
    if (supervisor.stopped) throw thrown;
    parts.warn(
      `PID ${supervisor.pid}`,
      `child ${id} starts with a new run; its former run stays suspended: ${messageOf(thrown)}`,
    );
    return undefined;
  }
}

/** Resolves when the program runs, and fails when it can't be started. */
async function spawnCommand(
  parts: SupervisorParts,
  supervisor: Process,
  child: ChildSpec,
  start: Extract<ChildStart, { kind: "command" }>,
): Promise<PID> {
  const { request, opts } = await planned(parts.clock, supervisor.signal, start.plan);
  const launched = Promise.withResolvers<void>();
  launched.promise.catch(() => undefined); // Not awaited when the spawn fails before it.
  const exec = (proc: Process, program: ExecRequest) => parts.openContexts.exec(proc, program, undefined);
  const task = commandTask(exec, request, launched);
  const shutdown = shutdownOf(child);
  const graceMs = typeof shutdown === "number" ? shutdown : opts.limits.grace;
  const pid = await parts.processes.spawnTask("command", task, request.argv.join(" "), bareAgent("command"), {
    ...opts,
    provider: null,
    limits: { ...opts.limits, grace: graceMs },
    parentPid: supervisor.pid,
  });
  const proc = parts.table.get(pid);
  try {
    await launched.promise;
  } catch (thrown) {
    await proc.done;
    throw thrown;
  }
  return pid;
}

/** Reads a plan within a deadline; releases the devices of a plan that comes too late. */
export async function planned<T extends { opts: SpawnOpts }>(
  clock: Clock,
  signal: AbortSignal,
  plan: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const message = `Its plan could not be read within ${PLAN_MS / 1000} s.`;
  return withDeadline(clock, signal, PLAN_MS, message, async (limited) => {
    const plans = (async () => await plan(limited))();
    try {
      return await orAborted(plans, limited);
    } catch (thrown) {
      void plans.then(
        ({ opts }) => opts.devices.release(),
        () => undefined, // That is what was thrown.
      );
      throw thrown;
    }
  });
}

/** How to end a child: by a TERM, or by suspending it with this status. */
export type Ask = "terminate" | ExitStatus;

/**
 * Asks the child to end, waits for its grace, then kills it; resolves when it is reaped. `hurry` ends the wait. Returns
 * the exit status, and whether the child was killed.
 */
export async function stopChild(
  parts: Processes,
  supervisor: Process,
  child: Process,
  { shutdown, ask, hurry }: { shutdown: Shutdown; ask: Ask; hurry: Promise<void> },
): Promise<{ exit: ExitStatus; killed: boolean }> {
  if (shutdown !== "brutal_kill") {
    if (ask === "terminate") parts.signals().signalAll([child], SIGTERM, supervisor);
    else suspendTree(parts.table, child, ask);
    const ended = Promise.race([child.done, hurry]);
    await (shutdown === "infinity" ? ended : withTimeout(parts.clock, shutdown, ended));
  }
  const dies = child.exit === undefined;
  if (dies) parts.signals().signalAll(parts.table.tree(child), SIGKILL, supervisor);
  const exit = await child.done;
  await parts.runner.reap(child);
  return { exit, killed: dies };
}

/** A nested supervisor suspends its own children, in its order. */
function suspendTree(table: ProcessTable, proc: Process, status: ExitStatus): void {
  proc.stop(status);
  if (proc.spec.kind === "supervisor") return;
  for (const pid of proc.family.children) {
    const child = table.find(pid);
    if (child) suspendTree(table, child, status);
  }
}

/** The last characters of a program's output are the result of its process. */
const OUTPUT_KEPT = 16_384;
/** Characters of the output in an error message. */
const OUTPUT_SHOWN = 1_000;

/**
 * The task of a process that is one program and lives as long as it does. `launched` settles when the program runs or
 * could not be started.
 */
function commandTask(
  exec: (proc: Process, request: ExecRequest) => Promise<Child>,
  request: CommandRequest,
  launched: PromiseWithResolvers<void>,
): Task {
  return async (proc) => {
    const launch = async (whole: ExecRequest): Promise<Child> => {
      const child = await exec(proc, whole);
      launched.resolve();
      return child;
    };
    try {
      const done = await runProgram(launch, { ...request, life: "process" }, OUTPUT_KEPT, proc.signal);
      proc.result.text = done.output;
      if (proc.stopped) return { kind: "stopped", status: proc.stopped };
      if (done.exit.code === 0) return { kind: "finished" };
      return { kind: "broken", reason: "failed", error: endedWith(request.argv, done.exit, done.output) };
    } catch (thrown) {
      launched.reject(thrown);
      throw thrown;
    }
  };
}

function endedWith(argv: readonly string[], exit: ExitInfo, output: string): SyscallError {
  const how = exit.code === null ? `was ended by ${exit.signal ?? "a signal"}` : `ended with ${exit.code}`;
  const last = output.trim().slice(-OUTPUT_SHOWN);
  const said = last === "" ? "It printed nothing." : `Its last output: ${last}`;
  return new SyscallError("DRIVER", `The program \`${argv.join(" ")}\` ${how}. ${said}`);
}
