/** Builds the parts of the kernel in tiers, each on the ones before it. */

import { dirname, join } from "node:path";
import { DeviceRegistry } from "../vfs/registry.ts";
import { Asks } from "./asks/asks.ts";
import { TreeBudget } from "./budget/budget.ts";
import { DailyBudget } from "./budget/daily-budget.ts";
import { CapabilityManager } from "./capability-manager.ts";
import { ChatControl } from "./chat/chat-control.ts";
import { ConcurrencyManager } from "./concurrency-manager.ts";
import { ContextManager } from "./context-manager.ts";
import { Conversations } from "./conversation/conversations.ts";
import { Debugger } from "./debugger.ts";
import { namedError } from "./errors/named-error.ts";
import { ProcessEvents } from "./events/process-events.ts";
import { FileSystem } from "./file-system.ts";
import { EffectWindows } from "./files/effect-windows.ts";
import { OpenContexts } from "./files/open-context.ts";
import { InitManager } from "./init-manager.ts";
import { asUserMessage } from "./ipc/inbox.ts";
import { Inboxes } from "./ipc/inboxes.ts";
import { WaitingRunMail } from "./ipc/mail.ts";
import { IpcManager } from "./ipc-manager.ts";
import type { KernelPorts } from "./kernel-ports.ts";
import { LifecycleManager } from "./lifecycle-manager.ts";
import { ChangedFiles } from "./lifetime/changed-files.ts";
import { ChildAgents } from "./lifetime/child-agents.ts";
import { DirectCalls } from "./lifetime/direct-calls.ts";
import { LifecycleEvents } from "./lifetime/lifecycle-events.ts";
import { ProcessBuilder } from "./lifetime/process-builder.ts";
import { ProcessRunner } from "./lifetime/process-runner.ts";
import { forget } from "./lifetime/reap.ts";
import { RunResumer } from "./lifetime/run-resumer.ts";
import { ScheduledWakes } from "./lifetime/scheduled-wakes.ts";
import { requirePrice } from "./lifetime/spawn-limits.ts";
import { StartMounts } from "./lifetime/start-mounts.ts";
import { suspendSelf } from "./lifetime/suspend-self.ts";
import { ModelGate } from "./llm/model-gate.ts";
import type { PluginRequests } from "./llm/plugin-requests.ts";
import { OutputSchema } from "./loop/output-schema.ts";
import { type LoopPorts, reason } from "./loop/reasoning-loop.ts";
import { MountManager } from "./mount-manager.ts";
import { ProcGroupManager } from "./proc-group-manager.ts";
import type { Process } from "./process/process.ts";
import { ProcessTable } from "./process/process-table.ts";
import { ProcessManager } from "./process-manager.ts";
import { RunClaims } from "./resume/run-claims.ts";
import { SignalManager } from "./signal-manager.ts";
import { SupervisorManager } from "./supervisor-manager.ts";
import { Drain } from "./tools/drain.ts";
import { hasCorrespondent } from "./tools/message-tools.ts";
import { appendTools } from "./tools/tool-catalog.ts";
import { WaitingCalls } from "./tools/waiting-calls.ts";
import type { SuspendCause, Wake } from "./types.ts";
import { Units } from "./units/units.ts";

// The parts of the kernel in five tiers. A tier uses the tiers above it in this file, and none below it.

/** What every other part uses: the process table, conversations, inboxes, budget, trace and events. */
export function buildCore(ports: KernelPorts) {
  const { clock } = ports;
  const debug = new Debugger(clock);
  const contexts = new Conversations();
  const log = (level: "debug" | "info" | "warn", source: string, text: string): void =>
    ports.log?.(level, source, text);
  const warn = (source: string, text: string): void => log("warn", source, text);
  const table = new ProcessTable();
  const watchers = new ProcessEvents({ clock, table });
  const inboxes = new Inboxes((proc, entry) => {
    if (entry.kind === "input")
      watchers.emit(proc, { type: "message", state: "queued", ...asUserMessage(entry) });
  });
  /** Puts a notice into the inbox of a process, for its model. */
  const notify = async (proc: Process, source: string, text: string): Promise<void> => {
    const ts = new Date(clock.now()).toISOString();
    await inboxes.put(proc, { kind: "notice", ts, source, text });
  };
  return {
    debug,
    contexts,
    inboxes,
    log,
    warn,
    table,
    ctx: new ContextManager({ contexts, debug }),
    budget: TreeBudget.forKernel(ports.liveProcesses ?? null),
    watchers,
    events: new LifecycleEvents(),
    notify,
    notifyAsKernel: (proc: Process, text: string): Promise<void> => notify(proc, "kernel", text),
    /** Shows a process the tools that it may use and was not shown yet. */
    showNewTools: (proc: Process): void => void appendTools(proc, contexts),
    /** Writes a change of the process to its record. A failure is logged; the change stands. */
    async saveInfo(proc: Process): Promise<void> {
      try {
        proc.record.info(proc.info());
      } catch (thrown) {
        warn(`PID ${proc.pid}`, `record: ${namedError(thrown, "record", proc.pid).message}`);
      }
    },
  };
}

export type Core = ReturnType<typeof buildCore>;

/** What processes reach: files, mounts, devices, messages. */
export function buildIo(ports: KernelPorts, core: Core) {
  const { clock } = ports;
  const { debug, inboxes, log, notify, table, watchers } = core;
  const windows = new EffectWindows<Process>(clock, (proc) => table.ancestry(proc));
  const changes: ChangedFiles = new ChangedFiles({
    contexts: { execAlone: (proc, request, call) => openContexts.execAlone(proc, request, call) },
    windows,
    clock,
    warn: core.warn,
  });
  const units = new Units({
    children: ports.children,
    clock,
    uuid: ports.uuid,
    inboxes,
    find: (uuid) => table.findByUuid(uuid),
    record: (proc, uuid) => ports.runs(proc.spec.opts.project.dataDir).info(uuid),
    emit: (proc, { op, snapshot }) => watchers.emit(proc, { type: "unit", step: proc.step, op, snapshot }),
    beginEffects: (proc) => windows.begin(proc, "program"),
    reported: (uuid) => ports.mailed?.(uuid),
    warn: core.warn,
  });
  const openContexts: OpenContexts = new OpenContexts({
    ...ports,
    windows,
    changes,
    units: (proc, tool) => units.service(proc, tool),
    ask: (proc, callId, signal) => asks.service(proc, callId, signal),
    llm: async (proc, callId, request, signal) => (await pluginRequests()).ask(proc, callId, request, signal),
    log,
    inbox: notify,
    progress: (proc, tool, text) => watchers.notice(proc, `${tool}: ${text}`),
    output: (proc, callId, text, skipped) => watchers.output(proc, callId, text, skipped),
    jobOf: (proc) => table.ancestry(proc).find(({ spec }) => spec.opts.job)?.spec.opts.job?.id ?? null,
    treeDir: (proc) => treeDir(table, proc),
    checklist: (proc, plugin, items) => watchers.checklist(proc, plugin, items),
  });
  const waiting = new WaitingCalls(clock);
  const drain = new Drain({ clock, isWaiting: (proc, callId) => waiting.of(proc, callId) !== undefined });
  const asks: Asks = new Asks({
    ...ports,
    ...core,
    waiting,
    isStepCall: (proc, callId) => drain.isActive(proc, callId),
    emit: (proc, event) => watchers.asked(proc, event),
    suspend: (proc, reason, wake) => suspendSelf(debug, proc, reason, wake),
    pauseEffects: (proc) => windows.pause(proc),
  });
  const wakes = new ScheduledWakes({
    clock,
    inboxes,
    units,
    waiting,
    isStepCall: (proc, callId) => drain.isActive(proc, callId),
    isAttended: (proc) => asks.isAttended(proc),
    suspend: (proc, reason, wake) => suspendSelf(debug, proc, reason, wake),
    pauseEffects: (proc) => windows.pause(proc),
    holdClocks: (proc) => table.holdClocks(proc),
  });
  const files = new FileSystem({
    debug,
    contexts: openContexts,
    clock,
    ask: (proc, grant, asked, opened, signal) => asks.require(proc, grant, asked, opened, signal),
  });
  const gate = new ModelGate(ports);
  let requests: Promise<PluginRequests> | undefined;
  /** Loaded at its first use: most runs have no driver that asks. */
  const pluginRequests = (): Promise<PluginRequests> => {
    requests ??= import("./llm/plugin-requests.ts").then(
      (module) =>
        new module.PluginRequests({
          files,
          gate,
          readOutput: (schema, answer) => new OutputSchema(schema).read(answer),
          watchers,
        }),
    );
    return requests;
  };
  const mounts = new MountManager({
    ...ports,
    table,
    debug,
    files,
    log,
    appendTools: core.showNewTools,
    notify: core.notifyAsKernel,
  });
  const mail = new WaitingRunMail({ runs: ports.runs, wake: (uuid) => ports.mailed?.(uuid) });
  return {
    openContexts,
    units,
    files,
    mounts,
    waiting,
    drain,
    asks,
    wakes,
    gate,
    /** The kernel's own devices. They are registered last, because they use its managers. */
    devices: new DeviceRegistry(),
    changes,
    ipc: new IpcManager({ table, mail, inboxes, debug, clock }),
  };
}

/** The record's folder of the root run of the process's tree. */
function treeDir(table: ProcessTable, proc: Process): string | undefined {
  if (proc.pid === 0) return proc.spec.opts.about?.dir;
  const { tree } = proc.spec;
  const root = table.ancestry(proc).find(({ uuid }) => uuid === tree);
  // A root that has ended is not in the table.
  return root?.record.dir ?? join(dirname(proc.record.dir), tree);
}

type Io = ReturnType<typeof buildIo>;

/** How a process is built, changed from outside, and ended, whatever its task is. */
export function buildProcesses(ports: KernelPorts, core: Core, io: Io) {
  const { children, clock } = ports;
  const { contexts, ctx, debug, inboxes, table, warn } = core;
  const { asks, changes, devices, files, mounts, units } = io;
  const { saveInfo } = core;
  const signals = new SignalManager({ table, children, debug, clock, warn, saveInfo });
  const groups = new ProcGroupManager({ table, signals, debug, saveInfo });
  const concurrency = new ConcurrencyManager({ table, debug, ctx, clock, warn });
  const { threads, coroutines } = concurrency;
  const holders = { mounts, units, messages: inboxes, groups, signals, threads, coroutines };
  const reap = { table, contexts, children, holders, warn };
  return {
    signals,
    groups,
    concurrency,
    holders,
    capabilities: new CapabilityManager({
      table,
      files,
      debug,
      appendTools: core.showNewTools,
      notify: core.notifyAsKernel,
      emit: (proc, event) => core.watchers.emit(proc, event),
      recheck: (via) => asks.recheck(via),
      saveInfo,
      warn,
    }),
    runner: new ProcessRunner({ ...ports, ...core, files, mounts, changes, units, reap }),
    builder: new ProcessBuilder({
      ...ports,
      ...core,
      devices,
      days: new DailyBudget({ ...ports, kernelBudget: core.budget }),
      files,
      mounts,
      makeContext: (proc, entry, as, access) => io.openContexts.make(proc, entry, as, access, proc.signal),
      rejoin: (proc, names) => groups.restore(proc, names),
      forget: (proc) => forget(reap, proc),
    }),
  };
}

export type Processes = ReturnType<typeof buildProcesses>;

/** What an agent's process does: model calls, tool calls, child agents, and how its run is resumed. */
export function buildAgents(ports: KernelPorts, core: Core, io: Io, processes: Processes) {
  const { clock, kernelAlive, kernelId, runs } = ports;
  const { debug, events, inboxes, table } = core;
  const { runner } = processes;
  const { waiting, drain, gate } = io;
  const suspend = (proc: Process, why: string, wake: Wake, cause?: SuspendCause): void =>
    suspendSelf(debug, proc, why, wake, cause);
  const loop = loopPorts(ports, core, io, { gate, suspend, runner });
  const startMounts = new StartMounts({
    mounts: io.mounts,
    clock,
    watchers: core.watchers,
    notify: core.notifyAsKernel,
  });
  const manager = new ProcessManager({
    ...ports,
    ...core,
    ...processes,
    reason: (proc) => reason(loop, proc),
    startMounts,
  });
  const store = {
    clock,
    runs,
    claims: new RunClaims({ clock, runs }),
    // Of this kernel, only runs in its table are alive.
    kernelAlive: (id: string): boolean => id !== kernelId && kernelAlive(id),
    sweepPrograms: ports.sweepPrograms,
  };
  const resumer = new RunResumer({ ...store, table, processes: manager, runner, inboxes, events });
  const children = new ChildAgents({
    ...ports,
    table,
    processes: manager,
    resumer,
    events,
    waiting,
    drain,
    suspend,
    watchers: core.watchers,
    units: io.units,
    notify: core.notifyAsKernel,
  });
  // After the children: those that were units are units again.
  events.subscribe({
    onResumed: (proc, { units, unread }) => io.units.resumed(proc, units, unread),
    onEnded: (uuid) => void io.units.endParked(uuid),
  });
  return {
    gate,
    drain,
    store,
    resumer,
    processes: manager,
    chats: new ChatControl({
      table,
      inboxes,
      files: io.files,
      children: ports.children,
      debug,
      clock,
      requirePrice: ({ spec: { budget, opts } }, provider) =>
        requirePrice(budget.limits, { ...opts, provider }, budget),
      watchers: core.watchers,
    }),
    children,
  };
}

export type Agents = ReturnType<typeof buildAgents>;

function loopPorts(
  { callbacks, children, clock, random }: KernelPorts,
  { ctx, debug, inboxes, saveInfo, showNewTools, table, warn, watchers }: Core,
  { asks, changes, drain, files, openContexts, units, waiting }: Io,
  parts: Pick<LoopPorts, "gate" | "suspend"> & { runner: ProcessRunner },
): LoopPorts {
  const { gate, runner, suspend } = parts;
  return {
    ctx,
    files,
    debug,
    gate,
    clock,
    random,
    inboxes,
    waiting,
    suspend,
    saveInfo,
    tools: {
      files,
      clock,
      drain,
      // The call itself was made. The end of the process ends what is left of its programs.
      endCall: (uuid, callId) =>
        children.endCall(uuid, callId).catch((thrown) => warn(`run ${uuid}`, `programs: ${String(thrown)}`)),
      changes,
      inboxes,
      asks,
      waiting,
      watchers,
    },
    contexts: openContexts,
    units,
    drain,
    endChildren: (proc) => runner.endChildren(proc),
    onStep: (proc) => {
      callbacks?.onStep(proc.pid, proc.step, proc.spec.maxSteps);
      watchers.step(proc);
    },
    offerMessages: (proc, entries) => {
      if (proc.messaging || !hasCorrespondent(proc, entries, table)) return;
      proc.messaging = true;
      showNewTools(proc);
    },
    watchers,
  };
}

/** What the system keeps running, and how all of it is suspended, resumed and shut down. */
export function buildSystem(
  ports: KernelPorts,
  core: Core,
  io: Io,
  { runner, signals }: Processes,
  agents: Agents,
) {
  const { children, clock } = ports;
  const { debug, log, table, warn } = core;
  const { mounts, openContexts, units } = io;
  const { drain, processes, resumer, store } = agents;
  const supervisors = new SupervisorManager({
    ...ports,
    ...core,
    processes,
    runner,
    signals,
    drain,
    resume: (uuid, agent, opts) => resumer.resume(uuid, agent, opts),
    exec: (proc, request) => openContexts.exec(proc, request, undefined),
  });
  const init = new InitManager({ table, debug, clock, supervisors, mounts, programs: children, log });
  const lifecycle = new LifecycleManager({
    ...ports,
    ...core,
    ...store,
    processes,
    runner,
    mounts,
    init,
    drain,
    resumer,
    units,
  });
  const calls = new DirectCalls({
    ...ports,
    table,
    mounts,
    devices: io.devices,
    files: io.files,
    makeContext: (proc, entry, as, access) => io.openContexts.make(proc, entry, as, access, proc.signal),
    endCall: (uuid, callId) => children.endCall(uuid, callId),
    endOwner: (uuid) => children.endOwner(uuid),
    warn,
  });
  return { supervisors, init, lifecycle, calls };
}
