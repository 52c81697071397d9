/** Frees everything that an ended process holds, in order. */

import { rm } from "node:fs/promises";
import { join } from "node:path";
import type { Children } from "../../os/children.ts";
import { TEMPORARY } from "../../sandbox/policy.ts";
import type { Conversations } from "../conversation/conversations.ts";
import { namedError } from "../errors/kernel-errors.ts";
import type { KernelPorts } from "../kernel-ports.ts";
import type { Process } from "../process/process.ts";
import type { ProcessTable } from "../process/process-table.ts";
import type { ResourceHolder } from "../process/resource-holder.ts";

/** The holders, in the order in which the reap clears them. */
export type HolderName = "mounts" | "units" | "messages" | "groups" | "signals" | "threads" | "coroutines";

export type Holders = Record<HolderName, ResourceHolder>;

export interface ReapPorts {
  table: Pick<ProcessTable, "find" | "remove">;
  contexts: Pick<Conversations, "ctxFree">;
  children: Pick<Children, "endOwner">;
  worktrees?: KernelPorts["worktrees"];
  holders: Holders;
  /** Resolves when the task of the process has ended and closed its files. */
  task(proc: Process): Promise<void>;
  warn(source: string, text: string): void;
}

type Step = readonly [what: string, run: () => Promise<void> | void];

/** One reap per process: later callers wait for the same one. */
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
  // The spawn failed, and the builder has undone it.
  if (ports.table.find(proc.pid) !== proc) return;
  await takeSteps(ports, proc, steps(ports, proc));
}

/** Clears what the managers hold for a process whose spawn failed; the builder undoes the rest. */
export function forget(ports: Pick<ReapPorts, "holders" | "warn">, proc: Process): Promise<void> {
  return takeSteps(ports, proc, holderSteps(ports.holders, proc));
}

async function takeSteps(
  { warn }: Pick<ReapPorts, "warn">,
  proc: Process,
  order: readonly Step[],
): Promise<void> {
  for (const [what, run] of order) {
    // A failed step is logged, and the next one follows: one fault must not leak all the rest.
    try {
      const pending = run();
      // Synchronous steps follow each other without a break, so no caller sees a half-freed process.
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
    ["units", () => holders.units.clear(proc)],
    ["mounts", () => holders.mounts.clear(proc)],
    ["temporary files", () => removeTemporary(proc)],
    ["worktree", () => endWorktree(ports, proc)],
    ...holderSteps(holders, proc), // 4 to 9
    ["context", () => contexts.ctxFree(proc.conversation.id)], // 10
    ["state", () => proc.reap()], // 11
    ["table", () => table.remove(proc)], // 12
    // Channels that were attached since step 4.
    ["channels", () => endChannels(proc)],
    // The list of a long-lived parent stays bounded.
    ["parent", () => ports.table.find(proc.family.ppid)?.family.remove(proc.pid)],
    ["budget", () => proc.spec.budget.close()],
    ["devices", () => proc.spec.opts.devices.release()],
  ];
}

/** What the managers hold for a process. */
function holderSteps(holders: Holders, proc: Process): Step[] {
  return [
    ["channels", () => endChannels(proc)], // 4
    ["messages", () => holders.messages.clear(proc)], // 5
    ["groups", () => holders.groups.clear(proc)], // 6
    ["signals", () => holders.signals.clear(proc)], // 7
    ["threads", () => holders.threads.clear(proc)], // 8
    ["coroutines", () => holders.coroutines.clear(proc)], // 9
  ];
}

/** Running children become PID 0's; zombies are reaped. */
function handleOrphanChildren(ports: ReapPorts, proc: Process): void {
  for (const pid of proc.family.children) {
    const child = ports.table.find(pid);
    if (!child) continue;
    child.family.ppid = 0;
    if (child.state === "zombie") void reapProcess(ports, child);
  }
}

/** The private temporary folder of a sandbox. A resumed run finds it again. */
async function removeTemporary({ spec, record, exit }: Process): Promise<void> {
  if (spec.opts.confinement && !exit?.suspended)
    await rm(join(record.dir, TEMPORARY), { recursive: true, force: true });
}

/** What it changed there is in its record before its parent sees its end. Nothing for a child that shares it. */
async function endWorktree({ worktrees }: ReapPorts, { uuid, spec, record, exit }: Process): Promise<void> {
  if (spec.opts.project.home === undefined || exit?.suspended) return;
  await (await worktrees?.())?.end(uuid, record.dir);
}

function endChannels(proc: Process): void {
  for (const channel of [...proc.tracers, ...proc.watchers]) channel.end();
}
