/** `/dev/lsp`: what language servers know of the code. One server for each language and workspace, shared by all runs. */

import { definePlugin } from "rnix/plugin";
import { SETTINGS } from "./settings.ts";
import { LSP } from "./tools.ts";

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
