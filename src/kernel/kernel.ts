/** Assembles the kernel of its managers. */

import { addLazy, lazy } from "../lib/caches.ts";
import type { Channel } from "../lib/channel.ts";
import type { DaemonSnapshot } from "../plugin/index.ts";
import type { Activity, LiveEvent } from "../run/live-event.ts";
import { registerOwnDevices } from "./devices/kernel-tools.ts";
import { LiveChanges } from "./files/effect-windows.ts";
import { InitManager } from "./init-manager.ts";
import { asUserMessage } from "./ipc/inbox.ts";
import type { KernelPorts } from "./kernel-ports.ts";
import { LifecycleManager, type ShutdownOptions } from "./lifecycle-manager.ts";
import { DirectCalls } from "./lifetime/direct-calls.ts";
import type { GateStatus } from "./llm/model-gate.ts";
import type { Process } from "./process/process.ts";
import type { Watched } from "./process/process-activity.ts";
import { SupervisorManager } from "./supervisor-manager.ts";
import { type Agents, buildAgents } from "./tiers/agents.ts";
import { buildCore } from "./tiers/core.ts";
import { buildIo } from "./tiers/io.ts";
import { buildProcesses } from "./tiers/processes.ts";
import type { PID, ProcessDetail, ProcInfo, SyscallEvent } from "./types.ts";
import type { Units } from "./units/units.ts";

/** Background units as the server reaches them: by PID, or by their own ids. */
function unitsById(units: Units) {
  return {
    /** Fails with NOT_FOUND for an id of no live process, as the next two do. */
    ownerOf: (id: string): PID => units.ownerOf(id).pid,
    stop: async (id: string): Promise<DaemonSnapshot> => units.stop(units.ownerOf(id), id),
    output: async (id: string) => units.output(units.ownerOf(id), id),
    /** Whether units of a suspended run go on here, and none has reported anything. */
    isParked: (uuid: string): boolean => units.isParked(uuid),
    /** Empty for a run that neither lives here nor is parked on its units. */
    list: (uuid: string, filter?: { terminal?: boolean }) => units.ofRun(uuid, filter),
    /** Moves the commands of a run's calls to the background. Returns how many. */
    moveCalls: (uuid: string): number => units.moveCalls(uuid),
  };
}

export interface Kernel extends ReturnType<typeof createKernel> {}

/** The kernel: thirteen managers, which make its syscalls, and what spans several of them. */
export function createKernel(ports: KernelPorts) {
  const parts = buildSystem(buildAgents(buildProcesses(buildIo(buildCore(ports)))));
  registerOwnDevices(parts);
  const { debug, ctx, files, processes, mounts } = parts;
  const { init, signals, groups, capabilities, ipc, supervisors, lifecycle, concurrency } = parts;
  const { asks, calls, chats, budget, contexts, inboxes, table, watchers } = parts;
  const units = unitsById(parts.units);
  const kernel = {
    debug,
    ctx,
    files,
    processes,
    mounts,
    // These make no syscalls of the table, as `calls`; `chats` makes Send.
    asks,
    units,
    budget,
    changes: new LiveChanges(parts),

    /** Resources held for processes, by kind: all 0 when there is no process. */
    resourceCounts: () => countResources(parts),

    async shutdown(options?: ShutdownOptions): Promise<void> {
      await Promise.all([calls.made?.close(), lifecycle().shutdown(options)]);
      debug.end();
    },

    /** The queue of each provider key in use. */
    modelQueues: (): GateStatus[] => parts.gate.status(),

    detail(pid: PID): ProcessDetail {
      const proc = table.get(pid);
      const info = proc.info();
      return {
        info,
        fds: proc.fds.list(),
        mounts: mounts.list(pid),
        env: info.env,
        permissions: info.permissions,
        context: { messages: contexts.messageCount(proc.conversation.id) },
      };
    },

    /**
     * All further events of a process, after those of its present state; or some types of them. Ends with
     * `complete`. `answers`: a person is there, who can answer its questions.
     */
    attach(
      pid: PID,
      { answers = false, watched }: { answers?: boolean; watched?: Watched } = {},
    ): Channel<LiveEvent> {
      const proc = table.get(pid);
      return watchers.attach(proc, watched, (channel) => {
        for (const entry of inboxes.inputs(proc))
          channel.push({ event: "message", state: "queued", ...asUserMessage(entry) });
        for (const snapshot of units.list(proc.uuid))
          channel.push({ event: "unit", step: proc.run.step, op: snapshot.status, snapshot });
        return asks.attach(proc, channel, answers);
      });
    },

    /** What a process does now; null for one that is not live here, has ended or is no agent. */
    doing: ({ uuid }: Pick<ProcInfo, "uuid">): Activity | null => table.ofUuid(uuid)?.doing() ?? null,

    /** Live syscall events until the process is reaped; of PID 0, until the kernel ends. */
    attachDebug: (pid: PID): Channel<SyscallEvent> =>
      pid === 0 ? debug.attachPid0() : debug.attach(table.get(pid)),
  };
  const made = {
    init,
    signals,
    groups,
    capabilities,
    ipc,
    supervisors,
    lifecycle,
    concurrency,
    calls,
    chats,
  };
  addLazy(kernel, made);
  return kernel;
}

/** The resources held for processes, by kind. Without processes all are 0; anything else is a leak. */
function countResources({ holders, ...parts }: System) {
  const live = parts.table.all();
  const sum = (of: (proc: Process) => number): number => live.reduce((total, proc) => total + of(proc), 0);
  return {
    processes: live.length,
    tasks: parts.runner.tasks,
    contexts: parts.contexts.size,
    fds: sum((proc) => proc.fds.list().length),
    channels: sum((proc) => proc.watchers.size + proc.tracers.size),
    mounts: holders.mounts.size,
    messages: holders.messages.size,
    groups: holders.groups.size,
    signals: holders.signals.size,
    threads: holders.threads.size,
    coroutines: holders.coroutines.size,
    supervisors: parts.supervisors.made?.size ?? 0,
    agents: parts.agents.made?.waiting ?? 0,
    modelCalls: parts.gate.calls,
    budgets: parts.budget.live,
    reservations: parts.budget.reserved.reservations,
    asks: parts.asks.size,
    units: holders.units.size,
    programs: parts.children.list().length,
  };
}

interface System extends ReturnType<typeof buildSystem> {}

function buildSystem(parts: Agents) {
  const supervisors = lazy(() => new SupervisorManager(parts));
  parts.events.subscribe({
    onResumed: (proc) => supervisors.made?.onResumed(proc),
    onEnded: (uuid, exit) => supervisors.made?.onSuspendedEnd(uuid, exit),
  });
  const init = lazy(() => new InitManager({ ...parts, supervisors }));
  return {
    ...parts,
    supervisors,
    init,
    lifecycle: lazy(() => new LifecycleManager({ ...parts, init })),
    calls: lazy(() => new DirectCalls(parts)),
  };
}
