/** The tool Agent, which runs a child agent. */

import { SyscallError } from "../../plugin/index.ts";
import { AGENT_PATH } from "../../vfs/kernel-paths.ts";
import type { ChildAgents } from "../agents/child-agents.ts";
import type { ChildRequest, ProcInfo } from "../types.ts";
import type { KernelTool } from "./tool-device.ts";

/** Maximum characters of a failed child's last text that its parent gets. */
const MAX_LAST_TEXT = 2_000;

/**
 * Gives a part of the task to a child and returns its answer. It has no deadline of its own: it
 * ends with the child, whose time limit is part of its parent's.
 */
export function agentTool(agents: () => ChildAgents): KernelTool {
  return {
    path: AGENT_PATH,
    tool: {
      name: "Agent",
      description:
        "Give a part of the task to another agent and get its answer. It knows only `intent` and uses your budget; do small things yourself.",
      input: {
        type: "object",
        properties: {
          intent: { type: "string", minLength: 1 },
          agent: { type: "string" },
          model: { type: "string" },
          schema: { type: "object" },
          run_in_background: { type: "boolean" },
        },
        required: ["intent"],
        additionalProperties: false,
      },
      subject: "agent",
      timeoutMs: Number.POSITIVE_INFINITY,
    },
    run: async ({ proc, input, call, signal }) => {
      if (input.run_in_background !== true)
        return answerOf(await agents().run(proc, requestOf(input), call.id, signal));
      const { id } = await agents().start(proc, requestOf(input), signal);
      return `Started in the background as unit ${id}. A message follows when it ends; DaemonOutput ${id} reads its answer, DaemonStop ${id} ends it.`;
    },
  };
}

function requestOf(input: Record<string, unknown>): ChildRequest {
  const text = (value: unknown): string | undefined => (typeof value === "string" ? value : undefined);
  const intent = text(input.intent)?.trim();
  if (!intent) throw new SyscallError("INVALID", "Agent: expected a text in intent that says what to do.");
  const { schema } = input;
  const isSchema = typeof schema === "object" && schema !== null && !Array.isArray(schema);
  return {
    intent,
    agent: text(input.agent) || undefined,
    model: text(input.model) || undefined,
    // Its answer is corrected until it fits, or the call fails.
    ...(isSchema && { options: { output_schema: { ...schema } } }),
  };
}

/** The result says how the child ended. Fails with DRIVER if it did not complete. */
function answerOf(child: ProcInfo): string {
  const who = `process ${child.pid}, agent ${child.agent}`;
  const spent = `${child.steps} ${child.steps === 1 ? "step" : "steps"}, ${child.tokens_used} tokens`;
  if (child.exit_code === 0) return `${child.result ?? ""}\n\n[${who}: completed, ${spent}]`;
  const why = child.error?.message.replace(/[^.!?]$/, "$&.") ?? "";
  const text = child.result ? ` Its last text: ${child.result.slice(0, MAX_LAST_TEXT)}` : "";
  throw new SyscallError(
    "DRIVER",
    `The agent did not complete (${who}: ${child.exit_reason}, ${spent}). ${why}${text}`.trim(),
  );
}
