/** The driver of the Claude Code CLI. */

import { definePlugin } from "rnix/plugin";

/**
 * The Claude Code CLI as a model (design §6): one write is one `claude -p`. Its own tools, settings and MCP servers
 * are off; it gets the process's tools from an MCP endpoint of this driver. `extra.command` of the provider's entry is
 * the absolute path of a program that is not found otherwise.
 */
export default definePlugin({
  name: "claude",
  api: 1,
  needs: ["exec", "secret", "tools"],
  devices: {
    "/dev/llm/claude": {
      factory: async (_subpath, _flags, context) => {
        const { claudeFile } = await import("./file.ts");
        return claudeFile(context);
      },
      provider: {
        // The program may be logged in: then it needs no key.
        keyEnvs: ["ANTHROPIC_API_KEY", "CLAUDE_CODE_OAUTH_TOKEN"],
        baseUrlEnv: "ANTHROPIC_BASE_URL",
        service: "https://api.anthropic.com",
        isProgram: true,
        detect: async (env) => {
          const { findBinary } = await import("./binary.ts");
          return findBinary(env) === undefined ? null : { model: "sonnet" };
        },
      },
    },
  },
});
