/** Assembles the kernel of its managers. */

import type { Channel } from "../lib/channel.ts";
import type { DaemonSnapshot } from "../plugin/index.ts";
import type { Asks } from "./asks/asks.ts";
import type { TreeBudget } from "./budget/budget.ts";
import type { CapabilityManager } from "./capability-manager.ts";
import type { ChatControl } from "./chat/chat-control.ts";
import type { ConcurrencyManager } from "./concurrency-manager.ts";
import type { ContextManager } from "./context-manager.ts";
import type { Debugger } from "./debugger.ts";
import { registerOwnDevices } from "./devices/own-devices.ts";
import type { Watched } from "./events/process-events.ts";
import type { FileSystem } from "./file-system.ts";
import type { InitManager } from "./init-manager.ts";
import { asUserMessage } from "./ipc/inbox.ts";
import type { IpcManager } from "./ipc-manager.ts";
import type { KernelPorts } from "./kernel-ports.ts";
import {
  type Agents,
  buildAgents,
  buildCore,
  buildIo,
  buildProcesses,
  buildSystem,
  type Core,
  type Processes,
} from "./kernel-tiers.ts";
import type { LifecycleManager } from "./lifecycle-manager.ts";
import type { DirectCalls } from "./lifetime/direct-calls.ts";
import { LiveChanges } from "./lifetime/live-changes.ts";
import { countResources } from "./lifetime/resource-counts.ts";
import type { ShutdownOptions } from "./lifetime/shutdown.ts";
import type { GateStatus } from "./llm/model-gate.ts";
import type { MountManager } from "./mount-manager.ts";
import type { ProcGroupManager } from "./proc-group-manager.ts";
import type { Activity, ProcessEvent } from "./process/event.ts";
import type { ProcessManager } from "./process-manager.ts";
import { notifyUndos } from "./resume/undo-notice.ts";
import type { SignalManager } from "./signal-manager.ts";
import type { SupervisorManager } from "./supervisor-manager.ts";
import { awaitMounts, deferredTools, loadTools } from "./tools/tool-catalog.ts";
import type { PID, ProcessDetail, ProcInfo, SyscallEvent } from "./types.ts";
import type { Units } from "./units/units.ts";

/** Background units as the server reaches them: by PID, or by their own ids. */
export interface KernelUnits {
  /** Fails with NOT_FOUND for an id of no live process, as the next two do. */
  ownerOf(id: string): PID;
  stop(id: string): Promise<DaemonSnapshot>;
  output(id: string): Promise<{ snapshot: DaemonSnapshot; text: string }>;
  /** Whether units of a suspended run go on here, and none has reported anything. */
  isParked(uuid: string): boolean;
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
  };
}

/** The kernel: thirteen managers, which make its syscalls, and what spans several of them. */
export class Kernel {
  /** Debugger (1). */
  readonly debug: Debugger;
  /** ContextManager (4). */
  readonly ctx: ContextManager;
  /** FileSystem (5). */
  readonly files: FileSystem;
  /** ProcessManager (5). */
  readonly processes: ProcessManager;
  /** SignalManager (4). */
  readonly signals: SignalManager;
  /** ProcGroupManager (4). */
  readonly groups: ProcGroupManager;
  /** CapabilityManager (2). */
  readonly capabilities: CapabilityManager;
  /** IpcManager (3). */
  readonly ipc: IpcManager;
  /** SupervisorManager (4). */
  readonly supervisors: SupervisorManager;
  /** InitManager (2). */
  readonly init: InitManager;
  /** LifecycleManager (4). */
  readonly lifecycle: LifecycleManager;
  /** MountManager (3). */
  readonly mounts: MountManager;
  /** ConcurrencyManager (4). */
  readonly concurrency: ConcurrencyManager;

  /** Questions to a person; no syscalls of their own. */
  readonly asks: Asks;
  /** Calls that commands make; no syscalls of their own. */
  readonly calls: DirectCalls;
  /** What live processes change in files. */
  readonly changes: LiveChanges;
  /** What users ask of conversations; no syscalls of the table, but for Send. */
  readonly chats: ChatControl;
  /** Background units of processes; no syscalls of their own. */
  readonly units: KernelUnits;
  /** Use and reservations of all processes together. */
  readonly budget: TreeBudget;

  readonly #ports: KernelPorts;
  readonly #core: Core;
  readonly #processes: Processes;
  readonly #agents: Agents;

  constructor(ports: KernelPorts) {
    const core = buildCore(ports);
    const io = buildIo(ports, core);
    const processes = buildProcesses(ports, core, io);
    const agents = buildAgents(ports, core, io, processes);
    const system = buildSystem(ports, core, io, processes, agents);
    this.#ports = ports;
    this.#core = core;
    this.#processes = processes;
    this.#agents = agents;
    this.debug = core.debug;
    this.ctx = core.ctx;
    this.budget = core.budget;
    this.files = io.files;
    this.mounts = io.mounts;
    this.asks = io.asks;
    this.ipc = io.ipc;
    this.units = unitsById(io.units);
    this.signals = processes.signals;
    this.groups = processes.groups;
    this.capabilities = processes.capabilities;
    this.concurrency = processes.concurrency;
    this.processes = agents.processes;
    this.changes = new LiveChanges({
      ...core,
      changes: io.changes,
      notifyUndos: (proc) =>
        notifyUndos(proc, ports.runs(proc.spec.opts.project.dataDir), ports.clock.now(), (text) =>
          core.notify(proc, "rnix", text),
        ),
    });
    this.chats = agents.chats;
    this.supervisors = system.supervisors;
    this.init = system.init;
    this.lifecycle = system.lifecycle;
    this.calls = system.calls;
    registerOwnDevices(io.devices, {
      table: core.table,
      contexts: core.contexts,
      tools: {
        deferred: deferredTools,
        ready: awaitMounts,
        load: (proc, tools) => loadTools(proc, core.contexts, tools),
      },
      ipc: io.ipc,
      agents: agents.children,
      wakes: io.wakes,
      modelQueues: () => this.modelQueues(),
    });
  }

  /** Resources held for processes, by kind: all 0 when there is no process. */
  resourceCounts() {
    return countResources({
      ...this.#core,
      ...this.#processes,
      gate: this.#agents.gate,
      agents: this.#agents.children,
      programs: this.#ports.children,
      supervisors: this.supervisors,
      asks: this.asks,
    });
  }

  async shutdown(options?: ShutdownOptions): Promise<void> {
    await Promise.all([this.calls.close(), this.lifecycle.shutdown(options)]);
    this.debug.end();
  }

  /** The queue of each provider key in use. */
  modelQueues(): GateStatus[] {
    return this.#agents.gate.status();
  }

  detail(pid: PID): ProcessDetail {
    const { table, contexts } = this.#core;
    const proc = table.get(pid);
    const info = proc.info();
    return {
      info,
      fds: proc.fds.list(),
      mounts: this.mounts.list(pid),
      env: info.env,
      permissions: info.permissions,
      context: { messages: contexts.messageCount(proc.ctxId) },
    };
  }

  /**
   * All further events of a process, after those of its present state; or those of its log alone. Ends with
   * `complete`. `answers`: a person is there, who can answer its questions.
   */
  attach(
    pid: PID,
    { answers = false, watched }: { answers?: boolean; watched?: Watched } = {},
  ): Channel<ProcessEvent> {
    const { inboxes, table, watchers } = this.#core;
    const proc = table.get(pid);
    return watchers.attach(proc, watched, (channel) => {
      for (const entry of inboxes.inputs(proc))
        channel.push({ type: "message", state: "queued", ...asUserMessage(entry) });
      for (const snapshot of this.units.list(proc.uuid))
        channel.push({ type: "unit", step: proc.step, op: snapshot.status, snapshot });
      return this.asks.attach(proc, channel, answers);
    });
  }

  /** What a process does now; null for one that is not live here, has ended or is no agent. */
  doing({ uuid }: Pick<ProcInfo, "uuid">): Activity | null {
    return this.#core.table.ofUuid(uuid)?.doing() ?? null;
  }

  /** Live syscall events until the process is reaped; of PID 0, until the kernel ends. */
  attachDebug(pid: PID): Channel<SyscallEvent> {
    return pid === 0 ? this.debug.attachPid0() : this.debug.attach(this.#core.table.get(pid));
  }
}
