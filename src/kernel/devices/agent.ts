import { SyscallError } from "../../plugin/index.ts";
import type { ChildAgents } from "../lifetime/child-agents.ts";
import type { ChildRequest, ProcInfo } from "../types.ts";
import type { KernelTool } from "./tool-device.ts";

/** Characters of a failed child's last words that its parent is shown. */
const LAST_WORDS = 2_000;

/**
 * Hands a part of the task to a child and gives back its answer (design §4, "spawn"). It has no deadline of its
 * own: it ends with the child, whose time lies within its parent's.
 */
export function agentTool(agents: () => ChildAgents): KernelTool {
  return {
    path: "/dev/kernel/agent",
    tool: {
      name: "Agent",
      description:
        "Give a part of the task to another agent and get its answer. It knows only `intent` and uses your budget; do yourself what takes a few calls.",
      input: {
        type: "object",
        properties: {
          intent: { type: "string", minLength: 1 },
          agent: { type: "string", minLength: 1 },
          model: { type: "string", minLength: 1 },
        },
        required: ["intent"],
        additionalProperties: false,
      },
      subject: "agent",
      timeoutMs: Number.POSITIVE_INFINITY,
    },
    run: async ({ proc, input, call, signal }) =>
      answerOf(await agents().run(proc, wishOf(input), call?.id, signal)),
  };
}

function wishOf(input: Record<string, unknown>): ChildRequest {
  const text = (value: unknown): string | undefined => (typeof value === "string" ? value : undefined);
  const intent = text(input.intent)?.trim();
  if (!intent) throw new SyscallError("INVALID", "Agent: expected a text in intent that says what to do.");
  return { intent, agent: text(input.agent), model: text(input.model) };
}

/** The result says how the child ended. Fails with DRIVER if it did not complete. */
function answerOf(child: ProcInfo): string {
  const who = `process ${child.pid}, agent ${child.agent}`;
  const spent = `${child.steps} ${child.steps === 1 ? "step" : "steps"}, ${child.tokens_used} tokens`;
  if (child.exit_code === 0) return `${child.result ?? ""}\n\n[${who}: completed, ${spent}]`;
  const why = child.error?.message ?? "";
  const words = child.result ? ` Its last words: ${child.result.slice(0, LAST_WORDS)}` : "";
  throw new SyscallError(
    "DRIVER",
    `The agent did not complete (${who}: ${child.exit_reason}, ${spent}). ${why}${words}`.trim(),
  );
}
