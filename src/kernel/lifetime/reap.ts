import type { Children } from "../../os/children.ts";
import type { Conversations } from "../conversation/conversations.ts";
import { namedError } from "../errors/named-error.ts";
import type { Process } from "../process/process.ts";
import type { ProcessTable } from "../process/process-table.ts";
import type { ResourceHolder } from "../process/resource-holder.ts";

/** In the order in which they let go. */
export type HolderName = "mounts" | "messages" | "groups" | "signals" | "threads" | "coroutines";

export type Holders = Record<HolderName, ResourceHolder>;

export interface ReapPorts {
  table: Pick<ProcessTable, "find" | "remove">;
  contexts: Pick<Conversations, "ctxFree">;
  children: Pick<Children, "endOwner">;
  holders: Holders;
  /** The task of a process; it has closed the process's files when it ends. */
  task(proc: Process): Promise<void>;
  warn(source: string, text: string): void;
}

type Step = readonly [what: string, run: () => Promise<void> | void];

/** One reap per process, whoever comes first: everyone else waits for the same one. */
const reaps = new WeakMap<Process, Promise<void>>();

/** Frees everything a zombie holds, in the order of the seeds (2.5). It never rejects. */
export function reapProcess(ports: ReapPorts, proc: Process): Promise<void> {
  let reap = reaps.get(proc);
  if (!reap) {
    reap = reapOnce(ports, proc);
    reaps.set(proc, reap);
  }
  return reap;
}

async function reapOnce(ports: ReapPorts, proc: Process): Promise<void> {
  // It never came to be: its builder has taken it back.
  if (ports.table.find(proc.pid) !== proc) return;
  await takeSteps(ports, proc, steps(ports, proc));
}

/** Takes back what others have given to a process that did not come to be; its builder does the rest. */
export function forget(ports: Pick<ReapPorts, "holders" | "warn">, proc: Process): Promise<void> {
  return takeSteps(ports, proc, given(ports.holders, proc));
}

async function takeSteps(
  { warn }: Pick<ReapPorts, "warn">,
  proc: Process,
  order: readonly Step[],
): Promise<void> {
  for (const [what, run] of order) {
    // A step that goes wrong is told, and the next one follows: one fault must not keep all the rest.
    try {
      const pending = run();
      // Those that wait for nothing follow each other at once: nobody sees a process half freed.
      if (pending) await pending;
    } catch (thrown) {
      warn(`PID ${proc.pid}`, `reap, ${what}: ${namedError(thrown, "Reap", proc.pid).message}`);
    }
  }
}

function steps(ports: ReapPorts, proc: Process): Step[] {
  const { table, contexts, children, holders } = ports;
  return [
    ["orphans", () => handleOrphanChildren(ports, proc)], // 1
    ["cancel", () => proc.cancel()], // 2
    ["task", () => ports.task(proc)], // 3
    // Background programs and mounts end between 3 and 4. A program that would not go holds nothing of the process.
    ["programs", () => children.endOwner(proc.uuid)],
    ["mounts", () => holders.mounts.clear(proc)],
    ...given(holders, proc), // 4 to 9
    ["context", () => contexts.ctxFree(proc.ctxId)], // 10
    ["state", () => proc.reap()], // 11
    ["table", () => table.remove(proc)], // 12
    // Whoever has found it in the table since step 4.
    ["channels", () => endChannels(proc)],
    ["parent", () => leaveParent(ports, proc)],
    ["envelope", () => proc.spec.budget.close()],
    ["devices", () => proc.spec.opts.devices.release()],
  ];
}

/** What is held for a process by others, from its first moment on. */
function given(holders: Holders, proc: Process): Step[] {
  return [
    ["channels", () => endChannels(proc)], // 4
    ["messages", () => holders.messages.clear(proc)], // 5
    ["groups", () => holders.groups.clear(proc)], // 6
    ["signals", () => holders.signals.clear(proc)], // 7
    ["threads", () => holders.threads.clear(proc)], // 8
    ["coroutines", () => holders.coroutines.clear(proc)], // 9
  ];
}

/** Running children go to PID 0; ended ones that still wait for their parent are reaped. */
function handleOrphanChildren(ports: ReapPorts, proc: Process): void {
  for (const pid of proc.children) {
    const child = ports.table.find(pid);
    if (!child) continue;
    child.ppid = 0;
    if (child.state === "zombie") void reapProcess(ports, child);
  }
}

function endChannels(proc: Process): void {
  for (const channel of [...proc.tracers, ...proc.watchers]) channel.end();
}

/** A parent that lives long does not keep the PIDs of all children it ever had. */
function leaveParent({ table }: ReapPorts, proc: Process): void {
  const siblings = table.find(proc.ppid)?.children ?? [];
  const at = siblings.indexOf(proc.pid);
  if (at >= 0) siblings.splice(at, 1);
}
