/** The tool TakeDiff, which takes what a child changed in its worktree. */

import { SyscallError } from "../../plugin/index.ts";
import type { KernelTool } from "./tool-device.ts";
import type { WorktreeChanges } from "./worktree-changes.ts";

/** Needs the right to write each file. */
export function takeDiff(changes: () => Promise<WorktreeChanges>): KernelTool {
  return {
    path: "/dev/kernel/take-diff",
    tool: {
      name: "TakeDiff",
      description:
        "Take the changes of a child that worked in a worktree of its own (Agent with worktree: true) into your folder. Files that conflict with yours are named and left as they are.",
      input: {
        type: "object",
        properties: {
          run: { type: "string", minLength: 1, description: "The UUID that the result of Agent names." },
          files: {
            type: "array",
            items: { type: "string" },
            description: "Files or folders; without them all.",
          },
        },
        required: ["run"],
        additionalProperties: false,
      },
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
