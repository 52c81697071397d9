/** The driver of servers with OpenAI's chat completions. */

import { definePlugin, SyscallError } from "rnix/plugin";
import type { Connection } from "./_model/open.ts";
import type { Settings } from "./_model/settings.ts";

/**
 * Servers with OpenAI's chat completions: Ollama, OpenRouter, vLLM, llama.cpp, … `extra` of the provider's entry is
 * copied into the request.
 */
export default definePlugin({
  name: "openai-compatible",
  api: 1,
  needs: ["secret"],
  devices: {
    "/dev/llm/openai-compatible": {
      factory: async (_subpath, _flags, context) => {
        const [{ openModel }, { compatible }] = await Promise.all([
          import("./_model/open.ts"),
          import("./_model/compatible.ts"),
        ]);
        const connect = (settings: Settings): Connection => {
          const blame = blameOf(settings);
          return { blame, needsKey: false, ...compatible(blame.url, settings.extra) };
        };
        return openModel(context, { name: "openai-compatible", models: [], connect });
      },
      provider: {
        keyEnvs: ["OPENAI_API_KEY"],
        baseUrlEnv: "OPENAI_BASE_URL",
        listsModels: true,
        needsBaseUrl: true,
        // The default model is the first of the server's own list.
        detect: async () => null,
      },
    },
  },
});

function blameOf({ base_url }: Settings): Connection["blame"] {
  if (base_url === undefined) {
    const message =
      "openai-compatible needs the server's address: set OPENAI_BASE_URL, or base_url in the provider's entry";
    throw new SyscallError("INVALID", message);
  }
  return {
    provider: "the model server",
    keyVariable: "the variable of its key (OPENAI_API_KEY, OPENROUTER_API_KEY)",
    urlVariable:
      "base_url of the provider's entry, or the variable it came from (OPENAI_BASE_URL, OLLAMA_HOST)",
    url: base_url,
  };
}
