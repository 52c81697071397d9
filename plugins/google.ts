/** The driver of Google's Gemini API. */

import type { JSONValue, LanguageModelV4, LanguageModelV4CallOptions } from "@ai-sdk/provider";
import { definePlugin, type LLMRequest } from "rnix/plugin";
import { answerForm } from "./_model/answer-form.ts";
import type { Access, Connection } from "./_model/open.ts";
import type { Settings } from "./_model/settings.ts";

/** Google's Gemini API. `extra` goes to the provider package (thinkingConfig, safetySettings, …). */
export default definePlugin({
  name: "google",
  api: 1,
  needs: ["secret"],
  devices: {
    "/dev/llm/google": {
      factory: async (_subpath, _flags, context) => {
        const { openModel } = await import("./_model/open.ts");
        return openModel(context, { name: "google", models: [DEFAULT_MODEL], connect });
      },
      provider: {
        keyEnvs: ["GEMINI_API_KEY", "GOOGLE_GENERATIVE_AI_API_KEY"],
        needsKey: true,
        baseUrlEnv: "GOOGLE_GEMINI_BASE_URL",
        listsModels: true,
        service: "https://generativelanguage.googleapis.com",
        detect: async (env) =>
          env.GEMINI_API_KEY || env.GOOGLE_GENERATIVE_AI_API_KEY ? { model: DEFAULT_MODEL } : null,
      },
    },
  },
});

const DEFAULT_MODEL = "gemini-3.8-flash";
/** Without the version that the package expects, as in GOOGLE_GEMINI_BASE_URL. */
const GOOGLE_URL = "https://generativelanguage.googleapis.com";
const VERSION = "v1beta";

function connect({ base_url, extra }: Settings): Connection {
  const url = (base_url ?? GOOGLE_URL).replace(/\/+$/, "").replace(new RegExp(`/${VERSION}$`), "");
  return {
    blame: {
      provider: base_url === undefined ? "Google" : "the model server",
      keyVariable: "GEMINI_API_KEY",
      urlVariable: `GOOGLE_GEMINI_BASE_URL (without /${VERSION}), or base_url of the provider's entry`,
      url,
    },
    needsKey: true,
    languageModel: (access) => languageModel(`${url}/${VERSION}`, access),
    list: (key) => ({
      url: `${url}/${VERSION}/models?pageSize=1000`,
      headers: { "x-goog-api-key": key },
      talks: (id) => !/embedding|imagen|image|veo|tts|audio|aqa/.test(id),
    }),
    options: (options, request) => ({
      ...options,
      ...responseFormat(request),
      providerOptions: {
        google: request.effort === undefined ? extra : { ...extra, thinkingConfig: withThoughts(extra) },
      },
    }),
  };
}

/** Many of its models accept no response format together with tools. */
function responseFormat(request: LLMRequest): Pick<LanguageModelV4CallOptions, "responseFormat"> {
  const form = answerForm(request);
  const hasTools = request.tools !== undefined && request.tools.length > 0;
  return form && !hasTools ? { responseFormat: form.responseFormat } : {};
}

/** Thoughts are only sent on request, and a model without thinking refuses the setting. */
function withThoughts({ thinkingConfig = {} }: Settings["extra"]): JSONValue {
  return typeof thinkingConfig === "object" && thinkingConfig !== null
    ? { includeThoughts: true, ...thinkingConfig }
    : thinkingConfig;
}

async function languageModel(baseURL: string, { model, key, fetch }: Access): Promise<LanguageModelV4> {
  const { createGoogle } = await import("@ai-sdk/google");
  return createGoogle({ baseURL, apiKey: key, fetch })(model);
}
