import { definePlugin } from "rnix/plugin";

/**
 * The Cursor CLI as a model: one write is one `agent --print`. It works with tools of its own, which the process's
 * rights do not bind, and can't be kept from them: it is unconfined, and used only where the user has said yes to that.
 * `extra.command` of the provider's entry names the program (absolute) where it is not found by itself.
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
        unconfined: true,
        detect: async (env) => {
          const { findBinary } = await import("./file.ts");
          return env.CURSOR_API_KEY && findBinary(env) !== undefined ? { model: "auto" } : null;
        },
      },
    },
  },
});
