/** Assembles the kernel of its managers. */

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
interface KernelUnits {
  /** Fails with NOT_FOUND for an id of no live process, as the next two do. */
  ownerOf(id: string): PID;
  stop(id: string): Promise<DaemonSnapshot>;
  output(id: string): Promise<{ snapshot: DaemonSnapshot; text: string }>;
  /** Whether units of a suspended run go on here, and none has reported anything. */
  isParked(uuid: string): boolean;
  /** Moves the commands of a run's calls to the background. Returns how many. */
  moveCalls(uuid: string): number;
  /** Empty for a run that neither lives here nor is parked on its units. */
  list(uuid: string, filter?: { terminal?: boolean }): DaemonSnapshot[];
}

function unitsById(units: Units): KernelUnits {
  return {
    ownerOf: (id) => units.ownerOf(id).pid,
    stop: async (id) => units.stop(units.ownerOf(id), id),
    output: async (id) => units.output(units.ownerOf(id), id),
    isParked: (uuid) => units.isParked(uuid),
    list: (uuid, filter) => units.ofRun(uuid, filter),
    moveCalls: (uuid) => units.moveCalls(uuid),
  };
}

/** The kernel: thirteen managers, which make its syscalls, and what spans several of them. */
export class Kernel {
  /** Debugger (1). */
  readonly debug: System["debug"];
  /** ContextManager (4). */
  readonly ctx: System["ctx"];
  /** FileSystem (5). */
  readonly files: System["files"];
  /** ProcessManager (5). */
  readonly processes: System["processes"];
  /** SignalManager (4). */
  readonly signals: System["signals"];
  /** ProcGroupManager (4). */
  readonly groups: System["groups"];
  /** CapabilityManager (2). */
  readonly capabilities: System["capabilities"];
  /** IpcManager (3). */
  readonly ipc: System["ipc"];
  /** SupervisorManager (4). */
  readonly supervisors: System["supervisors"];
  /** InitManager (2). */
  readonly init: System["init"];
  /** LifecycleManager (4). */
  readonly lifecycle: System["lifecycle"];
  /** MountManager (3). */
  readonly mounts: System["mounts"];
  /** ConcurrencyManager (4). */
  readonly concurrency: System["concurrency"];

  /** Questions to a person; no syscalls of their own. */
  readonly asks: System["asks"];
  /** Calls that commands make; no syscalls of their own. */
  readonly calls: System["calls"];
  /** What live processes change in files. */
  readonly changes: LiveChanges;
  /** What users ask of conversations; no syscalls of the table, but for Send. */
  readonly chats: System["chats"];
  /** Background units of processes; no syscalls of their own. */
  readonly units: KernelUnits;
  /** Use and reservations of all processes together. */
  readonly budget: System["budget"];

  readonly #parts: System;

  constructor(ports: KernelPorts) {
    const parts = buildSystem(buildAgents(buildProcesses(buildIo(buildCore(ports)))));
    this.#parts = parts;
    this.debug = parts.debug;
    this.ctx = parts.ctx;
    this.budget = parts.budget;
    this.files = parts.files;
    this.mounts = parts.mounts;
    this.asks = parts.asks;
    this.ipc = parts.ipc;
    this.units = unitsById(parts.units);
    this.signals = parts.signals;
    this.groups = parts.groups;
    this.capabilities = parts.capabilities;
    this.concurrency = parts.concurrency;
    this.processes = parts.processes;
    this.changes = new LiveChanges(parts);
    this.chats = parts.chats;
    this.supervisors = parts.supervisors;
    this.init = parts.init;
    this.lifecycle = parts.lifecycle;
    this.calls = parts.calls;
    registerOwnDevices(parts);
  }

  /** Resources held for processes, by kind: all 0 when there is no process. */
  resourceCounts() {
    return countResources(this.#parts);
  }

  async shutdown(options?: ShutdownOptions): Promise<void> {
    await Promise.all([this.calls.close(), this.lifecycle.shutdown(options)]);
    this.debug.end();
  }

  /** The queue of each provider key in use. */
  modelQueues(): GateStatus[] {
    return this.#parts.gate.status();
  }

  detail(pid: PID): ProcessDetail {
    const { table, contexts } = this.#parts;
    const proc = table.get(pid);
    const info = proc.info();
    return {
      info,
      fds: proc.fds.list(),
      mounts: this.mounts.list(pid),
      env: info.env,
      permissions: info.permissions,
      context: { messages: contexts.messageCount(proc.conversation.id) },
    };
  }

  /**
   * All further events of a process, after those of its present state; or some types of them. Ends with
   * `complete`. `answers`: a person is there, who can answer its questions.
   */
  attach(
    pid: PID,
    { answers = false, watched }: { answers?: boolean; watched?: Watched } = {},
  ): Channel<LiveEvent> {
    const { inboxes, table, watchers } = this.#parts;
    const proc = table.get(pid);
    return watchers.attach(proc, watched, (channel) => {
      for (const entry of inboxes.inputs(proc))
        channel.push({ event: "message", state: "queued", ...asUserMessage(entry) });
      for (const snapshot of this.units.list(proc.uuid))
        channel.push({ event: "unit", step: proc.run.step, op: snapshot.status, snapshot });
      return this.asks.attach(proc, channel, answers);
    });
  }

  /** What a process does now; null for one that is not live here, has ended or is no agent. */
  doing({ uuid }: Pick<ProcInfo, "uuid">): Activity | null {
    return this.#parts.table.ofUuid(uuid)?.doing() ?? null;
  }

  /** Live syscall events until the process is reaped; of PID 0, until the kernel ends. */
  attachDebug(pid: PID): Channel<SyscallEvent> {
    return pid === 0 ? this.debug.attachPid0() : this.debug.attach(this.#parts.table.get(pid));
  }
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
    supervisors: parts.supervisors.size,
    agents: parts.agents.waiting,
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
  const supervisors = new SupervisorManager(parts);
  const init = new InitManager({ ...parts, supervisors });
  const lifecycle = new LifecycleManager({ ...parts, init });
  return { ...parts, supervisors, init, lifecycle, calls: new DirectCalls(parts) };
}
