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
        detect: async (env) =>
          env.GEMINI_API_KEY || env.GOOGLE_GENERATIVE_AI_API_KEY ? { model: DEFAULT_MODEL } : null,
      },
    },
  },
});

const DEFAULT_MODEL = "gemini-3.8-flash";
/** As in GOOGLE_GEMINI_BASE_URL, without the version that the package wants. */
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
    options: (options, request) => ({
      ...options,
      ...held(request),
      providerOptions: {
        google: request.effort === undefined ? extra : { ...extra, thinkingConfig: shown(extra) },
      },
    }),
  };
}

/** Many of its models take no form of the answer together with tools. */
function held(request: LLMRequest): Pick<LanguageModelV4CallOptions, "responseFormat"> {
  const form = answerForm(request);
  const hasTools = request.tools !== undefined && request.tools.length > 0;
  return form && !hasTools ? { responseFormat: form.responseFormat } : {};
}

/** Its thoughts are told only when they are asked for, and a model that has none takes no such word. */
function shown({ thinkingConfig = {} }: Settings["extra"]): JSONValue {
  const isObject = typeof thinkingConfig === "object" && thinkingConfig !== null;
  return isObject ? { includeThoughts: true, ...thinkingConfig } : thinkingConfig;
}

async function languageModel(baseURL: string, { model, key, fetch }: Access): Promise<LanguageModelV4> {
  const { createGoogle } = await import("@ai-sdk/google");
  return createGoogle({ baseURL, apiKey: key, fetch })(model);
}
