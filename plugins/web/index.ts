/** `/dev/web`: pages of the web as text, and web search. */

import { definePlugin } from "rnix/plugin";
import { SETTINGS, WEB_FETCH, WEB_SEARCH } from "./tools.ts";

export default definePlugin({
  name: "web",
  needs: ["llm", "secret"],
  secrets: ["BRAVE_API_KEY", "TAVILY_API_KEY"],
  configSchema: SETTINGS,
  devices: {
    "/dev/web": {
      match: "prefix",
      tools: [WEB_FETCH, WEB_SEARCH],
      factory: async (subpath, _flags, context) => {
        const { openWeb } = await import("./operations.ts");
        return openWeb(subpath, context);
      },
    },
  },
});
