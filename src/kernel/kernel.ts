import { TreeBudget } from "./budget/budget.ts";
import { DailyBudget } from "./budget/daily-budget.ts";
import { CapabilityManager } from "./capability-manager.ts";
import { ConcurrencyManager } from "./concurrency-manager.ts";
import { ContextManager } from "./context-manager.ts";
import { Conversations } from "./conversation/conversations.ts";
import { ManualCompaction } from "./conversation/manual-compaction.ts";
import { Debugger } from "./debugger.ts";
import { ownDevices } from "./devices/own-devices.ts";
import type { Channel } from "./events/channel.ts";
import { callEntry, resultEntry } from "./events/log-entry.ts";
import { ProcessEvents } from "./events/process-events.ts";
import { FileSystem } from "./file-system.ts";
import { OpenContexts } from "./files/open-context.ts";
import { InitManager } from "./init-manager.ts";
import { Inboxes } from "./ipc/inboxes.ts";
import { Mail } from "./ipc/mail.ts";
import { IpcManager } from "./ipc-manager.ts";
import type { KernelPorts } from "./kernel-ports.ts";
import { LifecycleManager } from "./lifecycle-manager.ts";
import { ChangedFiles } from "./lifetime/changed-files.ts";
import { ChildAgents } from "./lifetime/child-agents.ts";
import { ProcessBuilder } from "./lifetime/process-builder.ts";
import { ProcessRunner } from "./lifetime/process-runner.ts";
import { forget } from "./lifetime/reap.ts";
import { countResources, type ResourceCounts, type ResourceOwners } from "./lifetime/resource-counts.ts";
import type { ShutdownOptions } from "./lifetime/shutdown.ts";
import { type GateStatus, ModelGate } from "./llm/model-gate.ts";
import { type LoopPorts, reason } from "./loop/reasoning-loop.ts";
import { MountManager } from "./mount-manager.ts";
import { ProcGroupManager } from "./proc-group-manager.ts";
import type { Process } from "./process/process.ts";
import { ProcessTable } from "./process/process-table.ts";
import { ProcessManager } from "./process-manager.ts";
import { SignalManager } from "./signal-manager.ts";
import { SupervisorManager } from "./supervisor-manager.ts";
import { Drain } from "./tools/drain.ts";
import { hasCorrespondent } from "./tools/message-tools.ts";
import { appendTools } from "./tools/tool-catalog.ts";
import { WaitingCalls } from "./tools/waiting-calls.ts";
import type { PID, ProcessDetail, ProcessEvent, SyscallEvent } from "./types.ts";

/** The kernel: its parts put together, and the syscalls through them. */
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
  readonly compactions: ManualCompaction;
  /** MountManager (3). */
  readonly mounts: MountManager;
  /** ConcurrencyManager (4). */
  readonly concurrency: ConcurrencyManager;

  /** What all processes together have used, and hold back. */
  readonly budget: TreeBudget;
  readonly #ports: KernelPorts;
  readonly #table = new ProcessTable();
  readonly #watchers: ProcessEvents;
  readonly #contexts = new Conversations();
  readonly #inboxes = new Inboxes();
  readonly #agents: ChildAgents;
  readonly #waiting: WaitingCalls;
  readonly #gate: ModelGate;
  readonly #drain: Drain;
  readonly #held: ResourceOwners;

  constructor(ports: KernelPorts) {
    this.#ports = ports;
    this.#watchers = new ProcessEvents(ports.clock);
    this.budget = TreeBudget.ofKernel(ports.liveProcesses ?? null);
    this.#waiting = new WaitingCalls(ports.clock);
    const waits = (proc: Process, callId: string): boolean => this.#waiting.of(proc, callId) !== undefined;
    this.#drain = new Drain({ clock: ports.clock, waits });
    const { children, clock, callbacks, random } = ports;
    const debug = new Debugger(clock);
    const table = this.#table;
    const contexts = this.#contexts;
    const devices = ownDevices({
      table,
      contexts,
      ipc: () => this.ipc,
      agents: () => this.#agents,
      capabilities: () => this.capabilities,
      modelQueues: () => this.modelQueues(),
    });
    const openContexts = new OpenContexts({
      children,
      userDataDir: ports.userDataDir,
      guarded: ports.guarded,
      history: ports.history,
      log: (level, source, text) => ports.log?.(level, source, text),
      inbox: (proc, source, text) => this.#notice(proc, source, text),
      progress: (proc, tool, text) => this.#watchers.emit(proc, { type: "notice", text: `${tool}: ${text}` }),
    });
    const files = new FileSystem({ debug, contexts: openContexts, clock });
    const ctx = new ContextManager({ contexts, debug });
    const changes = new ChangedFiles(openContexts);
    const gate = new ModelGate({ clock, random, openRequests: ports.openRequests });
    this.#gate = gate;
    const warn = (source: string, text: string): void => ports.log?.("warn", source, text);
    const show = (proc: Process): void => void appendTools(proc, contexts);
    this.mounts = new MountManager({
      ...ports,
      table,
      debug,
      files,
      log: (level, source, text) => ports.log?.(level, source, text),
      appendTools: show,
      tell: (proc, text) => this.#notice(proc, "kernel", text),
    });
    const builder = new ProcessBuilder({
      ...ports,
      table,
      devices,
      contexts,
      ctx,
      days: new DailyBudget({ ...ports, envelope: this.budget }),
      files,
      inboxes: this.#inboxes,
      mounts: this.mounts,
      rejoin: (proc, groups) => this.groups.restore(proc, groups),
      forget: (proc) => forget(reap, proc),
      warn,
    });
    const mail = new Mail({ runs: ports.runs, arrived: (uuid) => ports.mailed?.(uuid) });
    this.ipc = new IpcManager({ table, mail, inboxes: this.#inboxes, debug, clock });
    this.concurrency = new ConcurrencyManager({ table, debug, ctx, clock, warn });
    const { threads, coroutines } = this.concurrency;
    const note = (proc: Process): Promise<void> => life.note(proc);
    this.signals = new SignalManager({ table, children, debug, clock, warn, note });
    this.groups = new ProcGroupManager({ table, signals: this.signals, debug, note });
    this.capabilities = new CapabilityManager({
      table,
      files,
      debug,
      appendTools: show,
      tell: (proc, text) => this.#notice(proc, "kernel", text),
      note,
      warn,
    });
    const holders = {
      mounts: this.mounts,
      messages: this.#inboxes,
      groups: this.groups,
      signals: this.signals,
      threads,
      coroutines,
    };
    const reap = { table, contexts, children, holders, warn };
    const life = new ProcessRunner({
      table,
      files,
      mounts: this.mounts,
      openContexts,
      changes,
      children,
      reap,
      callbacks,
      runsIn: ports.runsIn,
      warn,
    });
    const loop = this.#loopPorts({ ctx, files, debug, gate, changes, note, appendTools: show });
    this.debug = debug;
    this.files = files;
    this.ctx = ctx;
    this.processes = new ProcessManager({
      table,
      builder,
      life,
      signals: this.signals,
      reason: (proc) => reason(loop, proc),
      debug,
      callbacks,
      guarded: ports.guarded,
    });
    this.supervisors = new SupervisorManager({
      table,
      life,
      debug,
      clock,
      random,
      warn,
      processes: this.processes,
      signals: this.signals,
      drain: this.#drain,
      resume: (uuid, agent, opts) => this.lifecycle.resume(uuid, agent, opts),
      exec: (proc, request) => openContexts.exec(proc, request, undefined),
    });
    this.init = new InitManager({
      table,
      debug,
      clock,
      supervisors: this.supervisors,
      mounts: this.mounts,
      programs: children,
      log: (level, source, text) => ports.log?.(level, source, text),
    });
    const { supervisors, budget: envelope } = this;
    this.compactions = new ManualCompaction({ table, debug });
    this.lifecycle = new LifecycleManager({
      table,
      processes: this.processes,
      life,
      children,
      mounts: this.mounts,
      init: this.init,
      drain: this.#drain,
      debug,
      inboxes: this.#inboxes,
      clock,
      runs: ports.runs,
      wakes: ports.wakes,
      // Of this kernel, only what stands in its table lives.
      kernelAlive: (id) => id !== ports.kernelId && ports.kernelAlive(id),
      sweepPrograms: ports.sweepPrograms,
      takeUpChildren: (proc, saved) => this.#agents.takeUpAll(proc, saved),
      goesOn: (proc) => supervisors.goesOn(proc),
      lost: (uuid, exit) => supervisors.lost(uuid, exit),
    });
    this.#agents = new ChildAgents({
      ...ports,
      table,
      processes: this.processes,
      lifecycle: this.lifecycle,
      waiting: this.#waiting,
      drain: this.#drain,
      tell: (proc, text) => this.#watchers.emit(proc, { type: "notice", text }),
      notice: (proc, text) => this.#notice(proc, "kernel", text),
    });
    const agents = this.#agents;
    this.#held = { table, life, contexts, children, holders, supervisors, agents, gate, envelope };
  }

  /** What is held for processes, by kind: all 0 when there is none. */
  resourceCounts(): ResourceCounts {
    return countResources(this.#held);
  }

  async shutdown(options?: ShutdownOptions): Promise<void> {
    await this.lifecycle.shutdown(options);
    this.debug.end();
  }

  /** How it stands with the model providers in use, each key on its own. */
  modelQueues(): GateStatus[] {
    return this.#gate.status();
  }

  detail(pid: PID): ProcessDetail {
    const proc = this.#table.get(pid);
    const info = proc.info();
    return {
      info,
      fds: proc.fds.list(),
      mounts: this.mounts.list(pid),
      env: info.env,
      permissions: info.permissions,
      context: { messages: this.#contexts.messageCount(proc.ctxId) },
    };
  }

  /** Everything a process tells from now on; where it stands is told first. Ends with `complete`. */
  attach(pid: PID): Channel<ProcessEvent> {
    return this.#watchers.attach(this.#table.get(pid));
  }

  /** Live syscall events until the process is reaped; of PID 0, until the kernel ends. */
  attachDebug(pid: PID): Channel<SyscallEvent> {
    return pid === 0 ? this.debug.attachPid0() : this.debug.attach(this.#table.get(pid));
  }

  #loopPorts(
    parts: Pick<LoopPorts, "ctx" | "files" | "debug" | "gate" | "note"> & {
      changes: ChangedFiles;
      appendTools(proc: Process): void;
    },
  ): LoopPorts {
    const { clock, callbacks, children } = this.#ports;
    const { changes, appendTools, ...own } = parts;
    return {
      ...own,
      clock,
      inboxes: this.#inboxes,
      waiting: this.#waiting,
      suspend: (proc, reason, wake) => this.lifecycle.layDown(proc, reason, wake),
      tools: {
        files: own.files,
        clock,
        drain: this.#drain,
        // The end of the process ends them once more: the call itself was made.
        endCall: (uuid, callId) =>
          children
            .endCall(uuid, callId)
            .catch((thrown) => this.#ports.log?.("warn", `run ${uuid}`, `programs: ${String(thrown)}`)),
        beforeEffect: (proc) => changes.begin(proc),
        settleInbox: (proc, callId, told) => this.#inboxes.settle(proc, callId, told),
        waitsFor: (proc, callId) => this.#waiting.of(proc, callId),
        onStart: (proc, call, path) => this.#watchers.log(proc, (at) => callEntry(at, call, path)),
        onEnd: (proc, record) => this.#watchers.log(proc, (at) => resultEntry(at, record)),
      },
      onStep: (proc) => {
        callbacks?.onStep(proc.pid, proc.step, proc.spec.maxSteps);
        this.#watchers.step(proc);
        this.#agents.onStep(proc);
      },
      offerMessages: (proc, told) => {
        if (proc.messaging || !hasCorrespondent(proc, told, this.#table)) return;
        proc.messaging = true;
        appendTools(proc);
      },
      emit: (proc, event) => this.#watchers.emit(proc, event),
    };
  }

  async #notice(proc: Process, source: string, text: string): Promise<void> {
    const ts = new Date(this.#ports.clock.now()).toISOString();
    await this.#inboxes.put(proc, { kind: "notice", ts, source, text });
  }
}
