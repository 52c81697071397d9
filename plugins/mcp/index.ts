/** The driver of MCP servers. */

import { definePlugin } from "rnix/plugin";

/** Servers of the Model Context Protocol (seeds 000 §3.4): mounted, their tools are those of any device. */
export default definePlugin({
  name: "mcp",
  api: 1,
  needs: ["exec", "ask", "llm"],
  mount: {
    type: "mcp",
    address: "url",
    // The protocol's library is loaded with the first server.
    open: async (config, context, signal) => {
      signal.throwIfAborted();
      const { openServer } = await import("./server.ts");
      return openServer(config, context, signal);
    },
  },
});
