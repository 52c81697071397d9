import type { ContextManager } from "../context/manager.ts";
import type { Children } from "../os/children.ts";
import type { Process } from "./process.ts";
import type { ProcessTable } from "./process-table.ts";

export interface ReapPorts {
  table: ProcessTable;
  contexts: ContextManager;
  children: Children;
  /** The reasoning task of a process; it has closed the process's files when it ends. */
  task(proc: Process): Promise<void>;
  warn(source: string, text: string): void;
}

/** One reap per process, whoever comes first: everyone else waits for the same one. */
const reaps = new WeakMap<Process, Promise<void>>();

/**
 * Frees everything a zombie holds, in the order of the seeds (2.5). The steps for what this kernel does not
 * have yet (message queue, groups, signal state, threads, coroutines) come where their numbers say.
 */
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
  handleOrphanChildren(ports, proc); // 1
  proc.stop(proc.exit ?? { code: 137, reason: "killed" }); // 2: no-op on a zombie
  await ports.task(proc); // 3
  // Background programs end between 3 and 4. One that would not go holds nothing of the process.
  await ports.children
    .endOwner(proc.uuid)
    .catch((thrown) => ports.warn(`PID ${proc.pid}`, `programs: ${String(thrown)}`));
  for (const tracer of [...proc.tracers]) tracer.end(); // 4
  for (const watcher of [...proc.watchers]) watcher.end();
  ports.contexts.ctxFree(proc.ctxId); // 10
  proc.reap(); // 11
  ports.table.remove(proc); // 12
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
