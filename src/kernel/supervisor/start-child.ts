import { onceAborted, withDeadline } from "../../lib/cancellation.ts";
import type { Clock } from "../../lib/clock.ts";
import type { Child, ExecRequest } from "../../plugin/index.ts";
import { bareAgent } from "../process/bare-agent.ts";
import type { Process } from "../process/process.ts";
import type { ProcessTable } from "../process/process-table.ts";
import { killed, SUSPENDED } from "../process/verdict.ts";
import type { ProcessManager } from "../process-manager.ts";
import type { AgentInfo, ExitStatus, PID, SpawnOpts } from "../types.ts";
import { SIGTERM } from "../types.ts";
import { commandTask } from "./command.ts";
import { type ChildSpec, type ChildStart, type SupervisorSpec, shutdownOf } from "./spec.ts";

export interface StartPorts {
  table: ProcessTable;
  processes: ProcessManager;
  clock: Clock;
  exec(proc: Process, request: ExecRequest): Promise<Child>;
  spawnSupervisor(spec: SupervisorSpec, parentPid: PID): Promise<PID>;
  /** Resume: see LifecycleManager. */
  resume(uuid: string, agent: AgentInfo | null, opts: SpawnOpts): Promise<{ pid: PID }>;
  warn(source: string, text: string): void;
}

/** Reading what a child is made of may take so long; building it has deadlines of its own. */
const PLAN_MS = 60_000;

/**
 * Makes the process of a child anew, below its supervisor. Told to stop meanwhile, the supervisor waits for
 * nothing of it: what there is of the child is ended.
 */
export async function startChild(ports: StartPorts, supervisor: Process, child: ChildSpec): Promise<Process> {
  const known = new Set(supervisor.children);
  const ignore = onceAborted(supervisor.signal, () => {
    for (const pid of supervisor.children) {
      if (!known.has(pid)) ports.table.find(pid)?.stop(passedOn(supervisor.stopped));
    }
  });
  try {
    return ports.table.get(await spawn(ports, supervisor, child));
  } finally {
    ignore();
  }
}

/** How a child that is just being started ends with its supervisor. */
function passedOn(stopped: ExitStatus | undefined): ExitStatus {
  return stopped?.code === SUSPENDED.code ? stopped : killed(SIGTERM, false);
}

async function spawn(ports: StartPorts, supervisor: Process, child: ChildSpec): Promise<PID> {
  const { start } = child;
  switch (start.kind) {
    case "supervisor":
      return await ports.spawnSupervisor(start.spec, supervisor.pid);
    case "agent": {
      const goneOn = await goOn(ports, supervisor, child, start);
      if (goneOn !== undefined) return goneOn;
      const { intent, agent, opts } = await planned(ports.clock, supervisor.signal, start.plan);
      return await ports.processes.spawn(intent, agent, { ...opts, parentPid: supervisor.pid });
    }
    case "command":
      return await spawnCommand(ports, supervisor, child, start);
  }
}

/** Goes on with the run that was cut off in the child's place, if there is one and it can be. */
async function goOn(
  ports: StartPorts,
  supervisor: Process,
  { id }: ChildSpec,
  { before }: Extract<ChildStart, { kind: "agent" }>,
): Promise<PID | undefined> {
  if (!before) return undefined;
  try {
    const left = await before(supervisor.signal);
    if (!left) return undefined;
    const { pid } = await ports.resume(left.uuid, left.agent, { ...left.opts, parentPid: supervisor.pid });
    return pid;
  } catch (thrown) {
    if (supervisor.stopped) throw thrown;
    const why = thrown instanceof Error ? thrown.message : String(thrown);
    ports.warn(
      `PID ${supervisor.pid}`,
      `child ${id} begins anew; what it did before stays suspended: ${why}`,
    );
    return undefined;
  }
}

/** Resolves when the program runs: one that can't be started is a child that did not start. */
async function spawnCommand(
  ports: StartPorts,
  supervisor: Process,
  child: ChildSpec,
  start: Extract<ChildStart, { kind: "command" }>,
): Promise<PID> {
  const { request, opts } = await planned(ports.clock, supervisor.signal, start.plan);
  const launched = Promise.withResolvers<void>();
  launched.promise.catch(() => undefined); // Not heard when the spawn fails before it.
  const task = commandTask(ports.exec, request, launched);
  const shutdown = shutdownOf(child);
  const graceMs = typeof shutdown === "number" ? shutdown : opts.limits.grace;
  const pid = await ports.processes.spawnTask("command", task, request.argv.join(" "), bareAgent("command"), {
    ...opts,
    provider: null,
    limits: { ...opts.limits, grace: graceMs },
    parentPid: supervisor.pid,
  });
  const proc = ports.table.get(pid);
  try {
    await launched.promise;
  } catch (thrown) {
    await proc.done;
    throw thrown;
  }
  return pid;
}

/** A plan, with its deadline; the devices of one that comes too late are let go of. */
export async function planned<T extends { opts: SpawnOpts }>(
  clock: Clock,
  signal: AbortSignal,
  plan: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const message = `What it is to be built with could not be read within ${PLAN_MS / 1000} s.`;
  const limited = withDeadline(clock, signal, PLAN_MS, message);
  const plans = (async () => await plan(limited.signal))();
  const givenUp = Promise.withResolvers<never>();
  const ignore = onceAborted(limited.signal, () => givenUp.reject(limited.signal.reason));
  try {
    return await Promise.race([plans, givenUp.promise]);
  } catch (thrown) {
    void plans.then(
      ({ opts }) => opts.devices.release(),
      () => undefined, // That is what was thrown.
    );
    throw thrown;
  } finally {
    ignore();
    limited.release();
  }
}
