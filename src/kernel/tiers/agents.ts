/** The fifth tier of the kernel's parts: what an agent's process does, and how its run is resumed. */

import { lazy } from "../../lib/caches.ts";
import { ChildAgents } from "../agents/child-agents.ts";
import { RunResumer } from "../agents/run-resumer.ts";
import { ChatControl } from "../chat/chat-control.ts";
import { StartMounts } from "../lifetime/start-mounts.ts";
import { reason } from "../loop/reasoning-loop.ts";
import { ProcessManager } from "../process-manager.ts";
import { RunClaims } from "../resume/suspended-runs.ts";
import type { Processes } from "./processes.ts";

export interface Agents extends ReturnType<typeof buildAgents> {}

export function buildAgents(parts: Processes) {
  const { events, kernelAlive, kernelId, units } = parts;
  const processes: ProcessManager = new ProcessManager({
    ...parts,
    reason: async (proc) => {
      const { script } = proc.spec.opts;
      if (!script) return reason(parts, proc);
      const own = { ...parts, agents, processes: () => processes };
      if (script.shell) return (await import("../loop/shell.ts")).runShell(own, proc, script);
      return (await import("../loop/workflow.ts")).runWorkflow(own, proc, script);
    },
    startMounts: lazy(() => new StartMounts(parts)),
  });
  const stored = {
    ...parts,
    processes,
    claims: lazy(() => new RunClaims(parts)),
    // A run of this kernel is alive only while it is in the process table.
    kernelAlive: (id: string): boolean => id !== kernelId && kernelAlive(id),
  };
  const resumer = lazy(() => new RunResumer(stored));
  const agents = lazy(() => new ChildAgents({ ...stored, resumer }));
  events.subscribe({ onResumed: (proc, saved) => agents().resumeChildren(proc, saved) });
  // After the children: those that were units are units again.
  events.subscribe({
    onResumed: (proc, { units: before, unread }) => units.resumed(proc, before, unread),
    onEnded: (uuid) => void units.endParked(uuid),
  });
  return { ...stored, resumer, agents, chats: lazy(() => new ChatControl(parts)) };
}
