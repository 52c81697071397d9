/** The tool Teammate, which starts an agent that stays and waits for messages. */

import { SyscallError } from "../../plugin/index.ts";
import type { ChildAgents } from "../agents/child-agents.ts";
import type { KernelTool } from "./tool-device.ts";

/** Each of its answers is an event for the process that has started it. */
export function teammateTool(agents: () => ChildAgents): KernelTool {
  return {
    path: "/dev/kernel/teammate",
    tool: {
      name: "Teammate",
      description:
        "Start an agent that stays: it works on `intent`, each of its answers reaches you as a message, and then it waits for yours (SendMessage). It shares your task list and your budget, and ends with you. For work in several turns; Agent is for one answer.",
      input: {
        type: "object",
        properties: {
          intent: { type: "string", minLength: 1 },
          agent: { type: "string" },
          model: { type: "string" },
        },
        required: ["intent"],
        additionalProperties: false,
      },
      defer: true,
      subject: "agent",
    },
    run: async ({ proc, input, signal }) => {
      const text = (value: unknown): string | undefined =>
        typeof value === "string" && value.trim() !== "" ? value.trim() : undefined;
      const intent = text(input.intent);
      if (intent === undefined)
        throw new SyscallError("INVALID", "Teammate: expected a text in intent that says what to do.");
      const wish = { intent, agent: text(input.agent), model: text(input.model), stays: true };
      const { unit, pid } = await agents().start(proc, wish, signal);
      return `Started as process ${pid}, unit ${unit.id}. SendMessage to ${pid} gives it more to do; DaemonStop ${unit.id} ends it.`;
    },
  };
}
