/** The one step of a run that follows a script: its beginning, its children and its record. */

import { SyscallError } from "../../plugin/index.ts";
import { noUsage } from "../../run/usage.ts";
import type { ToolCallRecord } from "../../store/runs/schema.ts";
import { AGENT_PATH } from "../../vfs/kernel-paths.ts";
import type { AgentOptions } from "../../workflows/messages.ts";
import type { WorkflowPart } from "../../workflows/script.ts";
import type { ChildAgents } from "../agents/child-agents.ts";
import { recordOrFail } from "../errors/kernel-errors.ts";
import type { Process } from "../process/process.ts";
import type { Processes } from "../tiers/processes.ts";
import type { ChildRequest, ProcInfo } from "../types.ts";
import { stepRecord } from "./step.ts";

export type ScriptParts = Processes & { agents(): ChildAgents };

/** Opens the step; returns when. `served`: the journal names its calls, not its answer. */
export function beginStep({ clock }: ScriptParts, proc: Process, o: { served?: true } = {}): string {
  proc.run.step++;
  const ts = new Date(clock.now()).toISOString();
  recordOrFail(() =>
    proc.record.journal({
      t: "answer",
      v: 1,
      step: proc.run.step,
      ts,
      message: { role: "assistant", content: "" },
      usage: noUsage(),
      so_far: proc.usageSoFar,
      messages: [...proc.conversation.unrecorded],
      ...o,
    }),
  );
  return ts;
}

/** Waits until the process may act: it is not paused, not stopped, and the kernel does not drain. */
export async function mayAct({ drain }: ScriptParts, proc: Process): Promise<void> {
  await proc.gate();
  if (drain.isOn) await drain.waitForSuspend(proc);
  proc.signal.throwIfAborted();
}

/** Runs the child of this key to its end, and shows it as a call. */
export async function runChild(
  parts: ScriptParts,
  proc: Process,
  id: string,
  wish: ChildRequest,
): Promise<ProcInfo> {
  const { clock, waiting, watchers } = parts;
  await mayAct(parts, proc);
  waiting.count(proc, id);
  const { intent, agent, workflow } = wish;
  const call = { id, name: "Agent", input: { intent: workflow?.label ?? intent, ...(agent && { agent }) } };
  watchers.callBegun(proc, call, AGENT_PATH);
  const started = clock.now();
  const ended = (end: Pick<ToolCallRecord, "state" | "result" | "error" | "error_code">): void =>
    watchers.callEnded(proc, {
      ...call,
      ...end,
      path: AGENT_PATH,
      started_at: new Date(started).toISOString(),
      duration_ms: clock.now() - started,
    });
  try {
    const info = await parts.agents().run(proc, wish, id, proc.signal);
    const why = info.exit_code === 0 ? null : (info.error?.message ?? info.exit_reason);
    const error_code = why === null ? null : "DRIVER";
    ended({ state: why === null ? "done" : "failed", result: info.result, error: why, error_code });
    return info;
  } catch (thrown) {
    if (thrown instanceof SyscallError)
      ended({ state: "failed", result: null, error: thrown.message, error_code: thrown.code });
    throw thrown;
  }
}

/** Records the step with its calls; `text` is the run's answer. */
export function recordStep(proc: Process, ts: string, text: string, calls: ToolCallRecord[]): void {
  const tool_calls = calls.map(({ id, name, input }) => ({ id, name, input }));
  const assistant = { role: "assistant" as const, content: text, ...(calls.length > 0 && { tool_calls }) };
  proc.conversation.unrecorded.push(assistant);
  const step = stepRecord(proc, {
    ts,
    assistant,
    answer: { content: text, tool_calls, stop_reason: "end_turn", usage: noUsage(), tokens_used: 0 },
    calls,
    action: "complete",
  });
  recordOrFail(() => proc.record.step(step));
  proc.run.recorded();
}

/** The request for the child. Options that the script does not give are those of its agent. */
export function requestOf(prompt: string, options: AgentOptions, part: WorkflowPart): ChildRequest {
  const { agent, model, schema, check, label, input, worktree, phase: _phase, ...given } = options;
  return {
    intent: prompt,
    agent,
    model,
    input,
    worktree,
    options: {
      ...given,
      ...(schema && { output_schema: schema }),
      check: typeof check === "string" ? [check] : check,
    },
    workflow: { ...part, label },
  };
}
