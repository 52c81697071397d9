/** The tool Plan, which records the model's plan. */

import { inputOf, type KernelTool } from "./tool-device.ts";

export const plan: KernelTool = {
  path: "/dev/kernel/plan",
  tool: {
    name: "Plan",
    description: "Note the steps of longer work first, and when they change.",
    input: inputOf(["steps"], {
      steps: { type: "array", items: { type: "string" }, minItems: 1 },
      reason: { type: "string" },
    }),
    annotations: { idempotentHint: true },
  },
  run({ proc, input }) {
    proc.run.plan = planText(input);
    return `The plan is noted:\n${proc.run.plan}`;
  },
};

export function planText(input: Record<string, unknown>): string {
  const steps = Array.isArray(input.steps) ? input.steps.map(String) : [];
  return steps.map((step, index) => `${index + 1}. ${step}`).join("\n");
}
