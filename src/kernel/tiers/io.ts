/** The second tier of the kernel's parts: what processes reach, such as files, mounts, devices and messages. */

import { dirname, join } from "node:path";
import { DeviceRegistry } from "../../vfs/namespace.ts";
import { Asks } from "../asks/asks.ts";
import { FileSystem } from "../file-system.ts";
import { ChangedFiles, EffectWindows } from "../files/effect-windows.ts";
import { OpenContexts } from "../files/open-context.ts";
import { IpcManager, WaitingRunMail } from "../ipc-manager.ts";
import { ScheduledWakes } from "../lifetime/scheduled-wakes.ts";
import { ModelGate } from "../llm/model-gate.ts";
import type { PluginRequests } from "../llm/plugin-requests.ts";
import { OutputSchema } from "../loop/output-schema.ts";
import { MountManager } from "../mount-manager.ts";
import { RunNetworks } from "../network/run-networks.ts";
import type { Process } from "../process/process.ts";
import type { ProcessTable } from "../process/process-table.ts";
import { Drain, WaitingCalls } from "../tools/open-calls.ts";
import type { MakeContext } from "../tools/plugin-hooks.ts";
import { Units } from "../units/units.ts";
import type { Core } from "./core.ts";

export interface Io extends ReturnType<typeof buildIo> {}

export function buildIo(core: Core) {
  const { clock, table, watchers } = core;
  const windows = new EffectWindows<Process>(clock, (proc) => table.ancestry(proc));
  const changes: ChangedFiles = new ChangedFiles(core, windows, (proc, request) =>
    openContexts.execAlone(proc, request, "changes"),
  );
  const units = new Units({
    ...core,
    find: (uuid) => table.findByUuid(uuid),
    record: (proc, uuid) => core.runs(proc.spec.opts.project.dataDir).info(uuid),
    emit: (proc, { op, snapshot }) =>
      watchers.emit(proc, { event: "unit", step: proc.run.step, op, snapshot }),
    beginEffects: (proc) => windows.begin(proc, "program"),
    reported: (uuid) => core.mailed?.(uuid),
  });
  const networks = new RunNetworks(core);
  const openContexts: OpenContexts = new OpenContexts({
    ...core,
    networks,
    windows,
    changes,
    units: (proc, tool) => units.service(proc, tool),
    ask: (proc, callId, signal) => asks.service(proc, callId, signal),
    llm: async (proc, callId, request, signal) => (await pluginRequests()).ask(proc, callId, request, signal),
    inbox: core.notify,
    notice: (proc, text) => watchers.notice(proc, text),
    progress: (proc, tool, text) => watchers.notice(proc, `${tool}: ${text}`),
    output: (proc, callId, text, skipped) => watchers.output(proc, callId, text, skipped),
    jobOf: (proc) => table.ancestry(proc).find(({ spec }) => spec.opts.job)?.spec.opts.job?.id ?? null,
    treeDir: (proc) => treeDir(table, proc),
    checklist: (proc, plugin, items) => watchers.checklist(proc, plugin, items),
  });
  const waiting = new WaitingCalls(clock);
  const drain = new Drain(clock, waiting);
  const isStepCall = (proc: Process, callId: string): boolean => drain.isActive(proc, callId);
  const pauseEffects = (proc: Process): (() => void) => windows.pause(proc);
  const asks: Asks = new Asks({
    ...core,
    waiting,
    isStepCall,
    emit: (proc, event) => watchers.asked(proc, event),
    pauseEffects,
  });
  const files = new FileSystem({ ...core, openContexts, asks });
  const gate = new ModelGate(core);
  let requests: Promise<PluginRequests> | undefined;
  /** Loaded at its first use: most runs have no driver that asks. */
  const pluginRequests = (): Promise<PluginRequests> => {
    const readOutput = (schema: object, answer: string) => new OutputSchema(schema).read(answer);
    requests ??= import("../llm/plugin-requests.ts").then(
      (module) => new module.PluginRequests({ files, gate, readOutput, watchers }),
    );
    return requests;
  };
  const makeContext: MakeContext = (proc, entry, as, access) =>
    openContexts.make(proc, entry, as, access, proc.signal);
  return {
    ...core,
    networks,
    openContexts,
    makeContext,
    units,
    files,
    mounts: new MountManager({ ...core, files, networks, openContexts }),
    waiting,
    drain,
    asks,
    scheduledWakes: new ScheduledWakes({ ...core, units, waiting, asks, isStepCall, pauseEffects }),
    gate,
    /** The kernel's own devices. They are registered last, because they use its managers. */
    devices: new DeviceRegistry(),
    changes,
    ipc: new IpcManager({ ...core, mail: new WaitingRunMail(core) }),
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
