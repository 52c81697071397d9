/** The driver of Anthropic's Messages API, and of servers with the same protocol. */

import type { LanguageModelV4, LanguageModelV4CallOptions, LanguageModelV4Message } from "@ai-sdk/provider";
import { definePlugin, type LLMRequest } from "rnix/plugin";
import { answerForm } from "./_model/answer-form.ts";
import type { Access, Connection } from "./_model/open.ts";
import type { Settings } from "./_model/settings.ts";

/** Anthropic's Messages API, and compatible servers. `extra` goes to the provider package (thinking, effort, …). */
export default definePlugin({
  name: "anthropic",
  api: 1,
  needs: ["secret"],
  devices: {
    "/dev/llm/anthropic": {
      factory: async (_subpath, _flags, context) => {
        const { openModel } = await import("./_model/open.ts");
        return openModel(context, { name: "anthropic", models: [DEFAULT_MODEL], connect });
      },
      provider: {
        keyEnvs: ["ANTHROPIC_API_KEY"],
        needsKey: true,
        baseUrlEnv: "ANTHROPIC_BASE_URL",
        listsModels: true,
        service: "https://api.anthropic.com",
        detect: async (env) => (env.ANTHROPIC_API_KEY ? { model: DEFAULT_MODEL } : null),
      },
    },
  },
});

const DEFAULT_MODEL = "claude-sonnet-5-5";
/** Without the `/v1` that the package expects, as is usual for this provider. */
const ANTHROPIC_URL = "https://api.anthropic.com";

function connect({ base_url, extra }: Settings): Connection {
  const url = (base_url ?? ANTHROPIC_URL).replace(/\/+$/, "");
  return {
    blame: {
      provider: base_url === undefined ? "Anthropic" : "the model server",
      keyVariable: "ANTHROPIC_API_KEY",
      urlVariable: "ANTHROPIC_BASE_URL (without /v1), or base_url of the provider's entry",
      url,
    },
    needsKey: true,
    languageModel: (access) => languageModel(`${url}/v1`, access),
    list: (key) => ({
      url: `${url}/v1/models?limit=1000`,
      headers: { "x-api-key": key, "anthropic-version": "2023-06-01" },
    }),
    options: (options, request) => ({
      ...withCacheMarks(options),
      ...responseFormat(request),
      providerOptions: { anthropic: { includePings: true, ...extra } },
    }),
  };
}

/**
 * A schema only where the model enforces it itself: for an open object the package would force a tool call, which
 * works with neither other tools nor thinking.
 */
function responseFormat(request: LLMRequest): Pick<LanguageModelV4CallOptions, "responseFormat"> {
  const form = answerForm(request);
  return form?.closed ? { responseFormat: form.responseFormat } : {};
}

async function languageModel(baseURL: string, { model, key, fetch }: Access): Promise<LanguageModelV4> {
  const { createAnthropic } = await import("@ai-sdk/anthropic");
  return createAnthropic({ baseURL, apiKey: key, fetch })(model);
}

/**
 * Marks what the next request will begin with, so that the provider reads it from its cache: tools and system prompt,
 * and the conversation up to the last message and up to the end of the previous request.
 */
function withCacheMarks(options: LanguageModelV4CallOptions): LanguageModelV4CallOptions {
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
