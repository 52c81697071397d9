/** The driver of the Cursor CLI. */

import { definePlugin } from "rnix/plugin";

/**
 * The Cursor CLI as a model: one write is one `agent --print`. It uses its own tools, which the process's permissions do
 * not limit and which can't be switched off. So it is unconfined, and only used after the user has agreed to that.
 * `extra.command` of the provider's entry is the absolute path of a program that is not found otherwise.
 */
export default definePlugin({
  name: "cursor",
  api: 1,
  needs: ["exec", "secret"],
  devices: {
    "/dev/llm/cursor": {
      factory: async (_subpath, _flags, context) => {
        const { cursorFile } = await import("./file.ts");
        return cursorFile(context);
      },
      provider: {
        keyEnvs: ["CURSOR_API_KEY"],
        needsKey: true,
        isProgram: true,
        unconfined: true,
        detect: async (env) => {
          const { findBinary } = await import("./file.ts");
          return env.CURSOR_API_KEY && findBinary(env) !== undefined ? { model: "auto" } : null;
        },
      },
    },
  },
});
