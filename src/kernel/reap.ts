import type { ContextManager } from "../context/manager.ts";
import type { Children } from "../os/children.ts";
import type { Process } from "./process.ts";
import type { ProcessTable } from "./process-table.ts";

/** A part of the kernel that holds something for processes, and lets go of it at their reap. */
export interface Holder {
  clear(proc: Process): Promise<void> | void;
  /** Processes, or things of theirs, that it still holds something for. */
  readonly size: number;
}

/** In the order in which they let go. */
export type HolderName = "mounts" | "messages" | "groups" | "signals" | "threads" | "coroutines";

export interface ReapPorts {
  table: ProcessTable;
  contexts: ContextManager;
  children: Children;
  holders: Partial<Record<HolderName, Holder>>;
  /** The reasoning task of a process; it has closed the process's files when it ends. */
  task(proc: Process): Promise<void>;
  warn(source: string, text: string): void;
}

/** One reap per process, whoever comes first: everyone else waits for the same one. */
const reaps = new WeakMap<Process, Promise<void>>();

/** Frees everything a zombie holds, in the order of the seeds (2.5). */
export function reapProcess(ports: ReapPorts, proc: Process): Promise<void> {
  let reap = reaps.get(proc);
  if (!reap) {
    reap = reapOnce(ports, proc);
    reaps.set(proc, reap);
  }
  return reap;
}

async function reapOnce(ports: ReapPorts, proc: Process): Promise<void> {
  const letGo = (name: HolderName): Promise<void> | void => ports.holders[name]?.clear(proc);
  // It never came to be: its builder has taken it back.
  if (ports.table.find(proc.pid) !== proc) return;
  handleOrphanChildren(ports, proc); // 1
  proc.stop(proc.exit ?? { code: 137, reason: "killed" }); // 2: no-op on a zombie
  await ports.task(proc); // 3
  // Background programs and mounts end between 3 and 4. A program that would not go holds nothing of the process.
  await ports.children
    .endOwner(proc.uuid)
    .catch((thrown) => ports.warn(`PID ${proc.pid}`, `programs: ${String(thrown)}`));
  await letGo("mounts");
  for (const tracer of [...proc.tracers]) tracer.end(); // 4
  for (const watcher of [...proc.watchers]) watcher.end();
  letGo("messages"); // 5
  letGo("groups"); // 6
  letGo("signals"); // 7
  await letGo("threads"); // 8
  await letGo("coroutines"); // 9
  ports.contexts.ctxFree(proc.ctxId); // 10
  proc.reap(); // 11
  ports.table.remove(proc); // 12
  proc.spec.envelope.close();
  proc.spec.opts.devices.release();
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
