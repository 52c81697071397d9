/** The tools by which an agent starts agents, workflows and teammates, and takes their changes. */

import { SyscallError } from "../../plugin/index.ts";
import { AGENT_PATH } from "../../vfs/kernel-paths.ts";
import type { ChildAgents } from "../agents/child-agents.ts";
import type { ChildRequest, ProcInfo } from "../types.ts";
import { inputOf, type KernelTool } from "./tool-device.ts";
import type { WorktreeChanges } from "./worktree-changes.ts";

/** Maximum characters of a failed child's last text that its parent gets. */
const MAX_LAST_TEXT = 2_000;

/**
 * Gives a part of the task to a child and returns its answer. It has no deadline of its own: it
 * ends with the child, whose time limit is part of its parent's.
 */
export function agentTool(agents: () => ChildAgents, changes: () => Promise<WorktreeChanges>): KernelTool {
  return {
    path: AGENT_PATH,
    tool: {
      name: "Agent",
      description:
        "Have an agent do a part. It knows only `intent`, uses your budget; do small work yourself.",
      input: inputOf(["intent"], {
        intent: { type: "string" },
        agent: { type: "string" },
        model: { type: "string" },
        schema: { type: "object" },
        run_in_background: { type: "boolean" },
        worktree: { type: "boolean" },
      }),
      subject: "agent",
      timeoutMs: Number.POSITIVE_INFINITY,
    },
    run: async ({ proc, input, call, signal }) => {
      const wish = requestOf("Agent", input);
      if (input.run_in_background !== true) {
        const child = await agents().run(proc, wish, call.id, signal);
        return answerOf(child, wish.worktree ? await (await changes()).summary(proc, child.uuid) : "");
      }
      const { unit } = await agents().start(proc, wish, signal);
      const { id } = unit;
      const change =
        wish.worktree && unit.kind === "local_agent"
          ? ` Its changes stay in its worktree: then TakeDiff (load it by ToolSearch) takes them, with run ${unit.metadata.uuid}.`
          : "";
      return `Started in the background as unit ${id}. A message follows when it ends; DaemonOutput ${id} reads its answer, DaemonStop ${id} ends it.${change}`;
    },
  };
}

function requestOf(tool: string, input: Record<string, unknown>): ChildRequest {
  const text = (value: unknown): string | undefined =>
    (typeof value === "string" && value.trim()) || undefined;
  const intent = text(input.intent);
  if (!intent) throw new SyscallError("INVALID", `${tool}: expected a text in intent that says what to do.`);
  const { schema } = input;
  const isSchema = typeof schema === "object" && schema !== null && !Array.isArray(schema);
  return {
    intent,
    agent: text(input.agent),
    model: text(input.model),
    ...(input.worktree === true && { worktree: true }),
    // Its answer is corrected until it fits, or the call fails.
    ...(isSchema && { options: { output_schema: { ...schema } } }),
  };
}

/** The result says how the child ended. Fails with DRIVER if it did not complete. */
function answerOf(child: ProcInfo, changes: string): string {
  const who = `process ${child.pid}, agent ${child.agent}`;
  const spent = `${child.steps} ${child.steps === 1 ? "step" : "steps"}, ${child.tokens_used} tokens`;
  if (child.exit_code === 0) return `${child.result ?? ""}\n\n[${who}: completed, ${spent}]${changes}`;
  const why = child.error?.message.replace(/[^.!?]$/, "$&.") ?? "";
  const text = child.result ? ` Its last text: ${child.result.slice(0, MAX_LAST_TEXT)}` : "";
  throw new SyscallError(
    "DRIVER",
    `The agent did not complete (${who}: ${child.exit_reason}, ${spent}). ${why}${text}`.trim() + changes,
  );
}

/** Each of its answers is an event for the process that has started it. */
export function teammateTool(agents: () => ChildAgents): KernelTool {
  return {
    path: "/dev/kernel/teammate",
    tool: {
      name: "Teammate",
      description:
        "Start an agent that stays: it works on `intent`, each of its answers reaches you as a message, and then it waits for yours (SendMessage). It shares your task list and your budget, and ends with you. For work in several turns; Agent is for one answer.",
      input: inputOf(["intent"], {
        intent: { type: "string", minLength: 1 },
        agent: { type: "string" },
        model: { type: "string" },
      }),
      defer: true,
      subject: "agent",
    },
    run: async ({ proc, input, signal }) => {
      const wish = { ...requestOf("Teammate", input), stays: true };
      const { unit, pid } = await agents().start(proc, wish, signal);
      return `Started as process ${pid}, unit ${unit.id}. SendMessage to ${pid} gives it more to do; DaemonStop ${unit.id} ends it.`;
    },
  };
}

/** Needs the right to write each file. */
export function takeDiff(changes: () => Promise<WorktreeChanges>): KernelTool {
  return {
    path: "/dev/kernel/take-diff",
    tool: {
      name: "TakeDiff",
      description:
        "Take the changes of a child that worked in a worktree of its own (Agent with worktree: true) into your folder. Files that conflict with yours are named and left as they are.",
      input: inputOf(["run"], {
        run: { type: "string", minLength: 1, description: "The UUID that the result of Agent names." },
        files: {
          type: "array",
          items: { type: "string" },
          description: "Files or folders; without them all.",
        },
      }),
      defer: true,
    },
    run: async ({ proc, input }) => {
      const files = Array.isArray(input.files) ? input.files.map(String) : [];
      const found = await (await changes()).take(proc, String(input.run), files);
      if (found.length === 0) return "It changed no files.";
      const lines = found.map(({ path, done, reason }) => `${done}: ${path}${reason ? ` (${reason})` : ""}`);
      if (found.every(({ done }) => done === "conflict" || done === "refused"))
        throw new SyscallError("DRIVER", `Nothing was taken.\n${lines.join("\n")}`);
      return lines.join("\n");
    },
  };
}

const DESCRIPTION = `Run a script that starts many agents, in the background; a message follows with its result. Give the name of a saved workflow, or a script such as
export const meta = {name: "review", description: "…"};
const notes = await pipeline(args, (file) => agent("Review " + file, {label: file}), (note) => agent("Refute: " + note));
return await agent("Sum up:\\n" + notes.filter(Boolean).join("\\n"));
It has agent(prompt, {agent, model, schema, check, label, …}), parallel(functions), pipeline(items, stages…), phase(name), log(text), args and budget; no files, network, clock or random numbers. All agents use your budget and rights.`;

/** The tool that starts a workflow. The workflow's end arrives as a signal. */
export function workflowTool(agents: () => ChildAgents): KernelTool {
  return {
    path: "/dev/kernel/workflow",
    tool: {
      name: "Workflow",
      description: DESCRIPTION,
      input: inputOf([], {
        script: { type: "string", minLength: 1, description: "Instead of a name." },
        name: { type: "string", minLength: 1 },
        args: { description: "Any JSON value: the script has it as args." },
      }),
      defer: true,
    },
    run: async ({ proc, input, signal }) => {
      const { unit } = await agents().start(proc, workflowOf(input), signal);
      const { id } = unit;
      return `Started as unit ${id}. A message follows when it ends; DaemonOutput ${id} shows how far it is, DaemonStop ${id} ends it and its agents.`;
    },
  };
}

function workflowOf({ script, name, args }: Record<string, unknown>): ChildRequest {
  const source = typeof script === "string" ? script : undefined;
  const saved = typeof name === "string" ? name : undefined;
  if (source === undefined && saved === undefined)
    throw new SyscallError("INVALID", "Workflow: expected a script, or the name of a saved workflow.");
  const called = saved ?? nameIn(source ?? "");
  return { intent: `workflow ${called}`, runs: { name: called, source, args } };
}

function nameIn(source: string): string {
  return /\bname\s*:\s*["'`]([\w .-]{1,80})["'`]/.exec(source.slice(0, 1000))?.[1] ?? "workflow";
}
