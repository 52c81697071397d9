import type { LanguageModelV4, LanguageModelV4CallOptions, LanguageModelV4Message } from "@ai-sdk/provider";
import { definePlugin, type OpenContext, type VFSFile } from "rnix/plugin";
import type { Blame } from "./_model/failure.ts";

/** Anthropic's Messages, and servers that speak it. `extra` goes to the provider package (thinking, effort, …). */
export default definePlugin({
  name: "anthropic",
  api: 1,
  needs: ["secret"],
  devices: {
    "/dev/llm/anthropic": {
      factory: (_subpath, _flags, context) => open(context),
      provider: { detect: async (env) => (env.ANTHROPIC_API_KEY ? { model: DEFAULT_MODEL } : null) },
    },
  },
});

const DEFAULT_MODEL = "claude-sonnet-5-5";
/** As everywhere with this provider, without the `/v1` that the package wants. */
const ANTHROPIC_URL = "https://api.anthropic.com";

async function open(context: OpenContext): Promise<VFSFile> {
  const [{ ModelFile }, { AiSdkModel }, { Kept }, { settingsOf, keyOf }] = await Promise.all([
    import("./_model/model-file.ts"),
    import("./_model/ai-sdk.ts"),
    import("./_model/kept.ts"),
    import("./_model/settings.ts"),
  ]);
  const settings = settingsOf(context);
  const url = (settings.base_url ?? ANTHROPIC_URL).replace(/\/+$/, "");
  const kept = new Kept<LanguageModelV4>();
  const model = new AiSdkModel(async (request, options) => {
    const key = await keyOf(context, { required: true });
    const blame: Blame = {
      provider: settings.base_url === undefined ? "Anthropic" : "the model server",
      keyVariable: "ANTHROPIC_API_KEY",
      urlVariable: "ANTHROPIC_BASE_URL (without /v1), or base_url of the provider's entry",
      url,
      model: request.model,
      key,
    };
    const streams = request.stream === true;
    return {
      model: await kept.get([request.model, key, streams], () => languageModel(blame, streams)),
      options: {
        ...cached(options),
        providerOptions: { anthropic: { includePings: true, ...settings.extra } },
      },
      blame,
    };
  });
  return new ModelFile(model, {
    name: "anthropic",
    devicePath: "/dev/llm/anthropic",
    models: [DEFAULT_MODEL],
  });
}

/** The package is loaded with the first request. */
async function languageModel(blame: Blame, streams: boolean): Promise<LanguageModelV4> {
  const [{ createAnthropic }, { requestFetch }] = await Promise.all([
    import("@ai-sdk/anthropic"),
    import("./_model/fetch.ts"),
  ]);
  const fetch = requestFetch(streams, blame);
  return createAnthropic({ baseURL: `${blame.url}/v1`, apiKey: blame.key, fetch })(blame.model);
}

/**
 * Marks what the next request will begin with, so that it is read from the provider's cache: the tools and
 * the system prompt, and the conversation up to its last message and up to the one the last request ended with.
 */
function cached(options: LanguageModelV4CallOptions): LanguageModelV4CallOptions {
  const ends = options.prompt
    .flatMap((message, index) => (message.role === "assistant" ? [] : [index]))
    .slice(-2);
  const prompt = options.prompt.map((message, index) =>
    message.role === "system" || ends.includes(index) ? marked(message) : message,
  );
  return { ...options, prompt };
}

function marked(message: LanguageModelV4Message): LanguageModelV4Message {
  return { ...message, providerOptions: { anthropic: { cacheControl: { type: "ephemeral" } } } };
}
