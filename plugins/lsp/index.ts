/** `/dev/lsp`: what language servers know of the code. One server for each language and workspace, shared by all runs. */

import { definePlugin } from "rnix/plugin";
import { LSP } from "./tools.ts";

const SETTINGS = {
  type: "object",
  properties: {
    servers: {
      type: "object",
      description: "Servers by name: new ones, or other commands for known ones. `false` switches one off.",
      additionalProperties: {
        anyOf: [
          { type: "boolean", const: false },
          {
            type: "object",
            properties: {
              command: { type: "array", items: { type: "string" }, minItems: 1 },
              languages: {
                type: "object",
                description: 'The language id of each file extension, such as {".ts": "typescript"}.',
                additionalProperties: { type: "string" },
              },
              roots: { type: "array", items: { type: "string" } },
              options: { type: "object", description: "The initializationOptions of the server." },
            },
            additionalProperties: false,
          },
        ],
      },
    },
  },
  additionalProperties: false,
} as const;

export default definePlugin({
  name: "lsp",
  needs: ["exec", "units"],
  configSchema: SETTINGS,
  async filesChanged(files, context, signal) {
    const { newProblems } = await import("./operations.ts");
    return newProblems(files, context, signal);
  },
  devices: {
    "/dev/lsp": {
      match: "prefix",
      tools: [LSP],
      factory: async (subpath, _flags, context) => {
        const { openLsp } = await import("./operations.ts");
        return openLsp(subpath, context);
      },
    },
  },
});
