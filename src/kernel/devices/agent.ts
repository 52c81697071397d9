import { SyscallError } from "../../plugin/index.ts";
import type { ChildAgents } from "../child-agents.ts";
import type { ChildWish, ProcInfo } from "../types.ts";
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
        "Hand a part of the task to another agent, which works on its own and gives you its answer. It is worth it for a part that can be told whole in a few sentences and whose details you need not see, such as a search through much of the code; what takes you a few calls, do yourself. The agent sees nothing of this conversation: its intent must say everything. It has no more rights than you, and works at the expense of your budget, steps and time. How many agents there may be below you, and how deep, is limited: when a call is refused, do the work yourself.",
      input: {
        type: "object",
        properties: {
          intent: {
            type: "string",
            minLength: 1,
            description: "What it is to do, what it needs to know for it, and what its answer is to contain.",
          },
          agent: { type: "string", minLength: 1, description: "Which agent; the default one if absent." },
          model: {
            type: "string",
            minLength: 1,
            description: "Another model of your own provider; by default it has yours, or its agent's own.",
          },
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

function wishOf(input: Record<string, unknown>): ChildWish {
  const text = (value: unknown): string | undefined => (typeof value === "string" ? value : undefined);
  const intent = text(input.intent)?.trim();
  if (!intent) throw new SyscallError("INVALID", "Agent: expected a text in intent that says what to do.");
  return { intent, agent: text(input.agent), model: text(input.model) };
}

/** How it ended is told in any case; DRIVER when it did not complete, whatever the reason. */
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
