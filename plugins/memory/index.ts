/** The plugin memory: what agents remember from run to run. */

import { type Device, definePlugin, type OpenContext, type ToolDef } from "rnix/plugin";
import { AnswerFile, type Answers } from "../_lib/answer-file.ts";
import { COMMANDS } from "./commands.ts";
import { LIMITS } from "./limits.ts";
import { MEMORY_COMMIT, MEMORY_PROFILE, MEMORY_RECALL } from "./tools.ts";

/** /dev/memory/*: what agents remember from run to run (seeds 2.6 to 2.8), in Markdown files that a person edits too. */
export default definePlugin({
  name: "memory",
  api: 1,
  needs: ["store", "search", "llm"],
  configSchema: LIMITS,
  devices: {
    "/dev/memory/commit": device([MEMORY_COMMIT], async (context) => {
      const { changes, COMMIT } = await import("./changes.ts");
      return changes(COMMIT, undefined, context);
    }),
    "/dev/memory/profile": device([MEMORY_PROFILE], async (context) => {
      const { changes, PROFILE } = await import("./changes.ts");
      return changes(PROFILE, "profile", context);
    }),
    "/dev/memory/recall": device([MEMORY_RECALL], async (context) => {
      const { recall } = await import("./recall.ts");
      return recall(context);
    }),
    "/dev/memory/review": device([], async (context) => {
      const { review } = await import("./review.ts");
      return review(context);
    }),
  },
  async prompt(context, signal) {
    const { promptPart } = await import("./prompt-part.ts");
    return promptPart(context, signal);
  },
  commands: COMMANDS,
});

function device(tools: ToolDef[], open: (context: OpenContext) => Promise<Answers>): Device {
  return {
    tools,
    factory: async (_subpath, _flags, context) => new AnswerFile(await open(context)),
  };
}
