/** The first tier of the kernel's parts: what every other part uses. */

import type { Taint } from "../../lib/taint.ts";
import { deniesByDefault } from "../../proxy/host-rules.ts";
import { isWhole } from "../../sandbox/policy.ts";
import { TreeBudget } from "../budget/budget.ts";
import { ContextManager } from "../context-manager.ts";
import { Conversations } from "../conversation/conversations.ts";
import { Debugger } from "../debugger.ts";
import { namedError } from "../errors/kernel-errors.ts";
import { LifecycleEvents, ProcessEvents } from "../events/process-events.ts";
import { asUserMessage } from "../ipc/inbox.ts";
import { Inboxes } from "../ipc/inboxes.ts";
import type { KernelPorts } from "../kernel-ports.ts";
import type { Process } from "../process/process.ts";
import type { ProcessTool } from "../process/process-spec.ts";
import { ProcessTable } from "../process/process-table.ts";
import { suspendedFor } from "../process/verdict.ts";
import { appendTools, awaitMounts, deferredTools, loadTools } from "../tools/tool-catalog.ts";
import type { SuspendCause, Wake } from "../types.ts";

/** Maximum characters of what brought the text of others. */
const MAX_SOURCE = 200;

/** The ports, the process table, conversations, inboxes, budget, trace and events. */
export interface Core extends ReturnType<typeof buildCore> {}

export function buildCore(ports: KernelPorts) {
  const { clock, callbacks } = ports;
  const contexts = new Conversations();
  const log = (level: "debug" | "info" | "warn", source: string, text: string): void =>
    ports.log?.(level, source, text);
  const warn = (source: string, text: string): void => log("warn", source, text);
  const saveInfo = (proc: Process): void => {
    try {
      proc.record.info(proc.info());
    } catch (thrown) {
      warn(`PID ${proc.pid}`, `record: ${namedError(thrown, "record", proc.pid).message}`);
    }
  };
  const table = new ProcessTable();
  const debug = new Debugger(clock, table);
  const watchers = new ProcessEvents({ clock, table, callbacks });
  const inboxes = new Inboxes((proc, entry) => {
    if (entry.kind === "input")
      watchers.emit(proc, { event: "message", state: "queued", ...asUserMessage(entry) });
  });
  const notify = async (proc: Process, source: string, text: string): Promise<void> => {
    const ts = new Date(clock.now()).toISOString();
    await inboxes.put(proc, { kind: "notice", ts, source, text });
  };
  return {
    ...ports,
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
    /** Puts a notice into the inbox of a process, for its model. */
    notify,
    notifyAsKernel: (proc: Process, text: string): Promise<void> => notify(proc, "kernel", text),
    /** Shows a live process the tools that it may use and was not shown yet. */
    showNewTools: (proc: Process): void => void appendTools(proc, contexts),
    deferredTools: {
      deferred: deferredTools,
      ready: awaitMounts,
      load: (proc: Process, tools: readonly ProcessTool[]): void => loadTools(proc, contexts, tools),
    },
    /** Writes a change of the process to its record. A failure is logged; the change stands. */
    saveInfo: async (proc: Process): Promise<void> => saveInfo(proc),
    /**
     * Marks a process that has read text of others. It is in its record at once. The first text is named; `device`: where
     * it came from, if from one device.
     */
    taint(proc: Process, origin: string, source: string, device?: string): void {
      const before = proc.permissions.taint;
      if (proc.pid === 0 || (before && (before.device === undefined || before.device === device))) return;
      const first = { origin, source: proc.secrets.hide(source).slice(0, MAX_SOURCE), device };
      const taint = before ? { ...before, device: undefined } : first;
      proc.permissions = proc.permissions.tainted({ ...taint, ...taintPolicy(proc) });
      if (proc.state === "running") saveInfo(proc);
    },
    /** A process that begins tainted, as a child or by a resume, has its own policy. */
    beginTainted(proc: Process): void {
      const { taint } = proc.permissions;
      if (taint) proc.permissions = proc.permissions.tainted({ ...taint, ...taintPolicy(proc) });
    },
    /** Suspends a process by itself in the middle of a step; its task ends soon after. */
    suspend(proc: Process, reason: string, wake: Wake, cause?: SuspendCause): void {
      const args = { pid: proc.pid, reason, wake };
      debug.callNow(proc, proc, "Suspend", args, () => proc.stop(suspendedFor(reason, { wake, cause })));
    },
  };
}

function taintPolicy({ spec: { opts } }: Process): Pick<Taint, "policy" | "confined"> {
  const { taint = "auto", attended, confinement, network } = opts;
  const policy = taint === "auto" ? (attended ? "off" : "ask") : taint;
  const isConfined = confinement && isWhole(confinement) && deniesByDefault(network);
  return { policy, confined: isConfined || undefined };
}
