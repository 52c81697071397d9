/** The tool Complete, which ends the run with a result. */

import type { KernelTool } from "./tool-device.ts";

export const complete: KernelTool = {
  path: "/dev/kernel/complete",
  tool: {
    name: "Complete",
    description: "End the run with this result. Call it alone, when nothing is left to do.",
    input: {
      type: "object",
      properties: { result: { type: "string" } },
      required: ["result"],
      additionalProperties: false,
    },
    annotations: { idempotentHint: true },
  },
  run({ proc, input }) {
    proc.run.completion = String(input.result);
    return "The run is complete.";
  },
};
