/** The tools by which an agent starts others, takes their changes, and sends and reads messages. */

import { parseDuration } from "../../lib/duration.ts";
import { messageOf } from "../../lib/error-detail.ts";
import { SyscallError } from "../../plugin/index.ts";
import { AGENT_PATH, READ_MESSAGES, SEND_MESSAGE } from "../../vfs/kernel-paths.ts";
import type { ChildAgents } from "../agents/child-agents.ts";
import { ENTRY_BYTES } from "../ipc/inbox.ts";
import { messagesText } from "../ipc/inboxes.ts";
import type { IpcManager } from "../ipc-manager.ts";
import { rfc, type ScheduledWakes, type WakeRequest } from "../lifetime/scheduled-wakes.ts";
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
      const wish = childRequest("Agent", input);
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

function childRequest(tool: string, input: Record<string, unknown>): ChildRequest {
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
      const wish = { ...childRequest("Teammate", input), stays: true };
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

/** ReadMessages returns this long before its deadline: no message is no failure. */
const MARGIN_MS = 1_000;
/** Maximum characters. Above every delivery (64 KiB and frames), because a truncated result would lose messages. */
const MAX_RESULT = 1024 * 1024;

export function sendMessage(ipc: () => IpcManager): KernelTool {
  return {
    path: SEND_MESSAGE,
    tool: {
      name: "SendMessage",
      description:
        "Send text to another process: your parent, a child or one that wrote to you. An answer reaches you at your next step or by ReadMessages. Read `/proc/{pid}/status` to see what it does.",
      input: inputOf(["to", "message"], {
        to: { type: ["string", "integer"], description: 'PID, UUID or "parent".' },
        message: { type: "string", minLength: 1, description: `At most ${ENTRY_BYTES} bytes.` },
      }),
    },
    async run({ proc, input }) {
      const to = typeof input.to === "number" ? input.to : String(input.to);
      return `The message is in the inbox of ${await ipc().sendTo(proc, to, String(input.message))}.`;
    },
  };
}

export function readMessages(ipc: () => IpcManager): KernelTool {
  return {
    path: READ_MESSAGES,
    tool: {
      name: "ReadMessages",
      description:
        "Wait for messages of other processes. They also reach you by themselves at your next step: call this when you can do nothing before one comes.",
      input: inputOf([], {
        wait_ms: {
          type: "integer",
          minimum: 0,
          description: "0 only looks. Default and maximum: the tool time limit.",
        },
      }),
      maxResult: MAX_RESULT,
      annotations: { readOnlyHint: true, idempotentHint: true },
    },
    async run({ proc, input, call, signal }) {
      const longest = Math.max(0, call.deadlineMs - MARGIN_MS);
      const wait = typeof input.wait_ms === "number" ? Math.min(input.wait_ms, longest) : longest;
      const { messages, left } = await ipc().recvForCall(proc, call.id, wait, signal);
      return messages.length > 0 ? messagesText(messages, left) : `No message came within ${wait} ms.`;
    },
  };
}

export function wake(wakes: () => ScheduledWakes): KernelTool {
  return {
    path: "/dev/kernel/wake",
    tool: {
      name: "Wake",
      description:
        "Wait until a time, a message or the report of a background unit, then continue here. Your run is suspended meanwhile: it costs nothing and uses none of its time. Returns the time and why you were woken.",
      input: inputOf([], {
        in: { type: "string", description: "How long, such as 30s, 10m, 2h or 1d." },
        at: { type: "string", description: "A time with its offset, such as 2027-01-05T09:00:00+01:00." },
        on: {
          enum: ["message", "unit"],
          description:
            "Wake at the next message, or report of a background unit, at the latest at that time.",
        },
      }),
      // The run waits without limit of the call.
      timeoutMs: Number.POSITIVE_INFINITY,
      defer: true,
      annotations: { idempotentHint: true },
    },
    async run({ proc, input, call, signal }) {
      const waits = wakes();
      const why = await waits.wait(proc, call.id, () => wakeRequest(input, waits.now()), signal);
      return `${why} It is ${rfc(waits.now())}.`;
    },
  };
}

function wakeRequest(input: Record<string, unknown>, now: number): WakeRequest {
  const on = input.on === "message" || input.on === "unit" ? input.on : undefined;
  if (typeof input.in === "string" && typeof input.at === "string")
    throw new SyscallError("INVALID", "Wake: expected one of in and at, got both.");
  if (typeof input.in === "string") return { on, at_ms: now + durationOf(input.in) };
  if (typeof input.at === "string") return { on, at_ms: timeOf(input.at, now) };
  if (on) return { on };
  throw new SyscallError("INVALID", 'Wake: expected in, at or on, such as {"in": "10m"}.');
}

/** The shortest wait: a suspension and a resume take a moment. */
const MIN_MS = 1_000;

function durationOf(text: string): number {
  try {
    return Math.max(MIN_MS, parseDuration(text.trim(), Number.MAX_SAFE_INTEGER));
  } catch (cause) {
    throw new SyscallError("INVALID", `Wake: in: ${messageOf(cause)}`, { cause });
  }
}

const WITH_OFFSET = /^\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:?\d\d)$/i;

function timeOf(text: string, now: number): number {
  const ms = WITH_OFFSET.test(text.trim()) ? Date.parse(text.trim().replace(" ", "T")) : Number.NaN;
  if (!Number.isNaN(ms)) return ms;
  const message = `Wake: at: expected a time with its offset, such as ${rfc(now + 3_600_000)} or 2027-01-05T09:00:00+01:00, got "${text}". Now it is ${rfc(now)}.`;
  throw new SyscallError("INVALID", message);
}
