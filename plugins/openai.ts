/** The driver of OpenAI. */

import type { LanguageModelV4 } from "@ai-sdk/provider";
import { definePlugin, SyscallError } from "rnix/plugin";
import { isObject } from "./_lib/json.ts";
import { once } from "./_lib/once.ts";
import { answerForm } from "./_model/answer-form.ts";
import type { Access, Connection, ListRequest } from "./_model/open.ts";
import type { Settings } from "./_model/settings.ts";

/**
 * OpenAI, or another server at OPENAI_BASE_URL. OpenAI itself is called by Responses, another server by chat
 * completions. `extra.api` overrides this: `responses`; `chat` for OpenAI's own chat completions; `compatible` for those
 * of other servers. The rest of `extra` goes to the provider package or, for `compatible`, into the request.
 */
export default definePlugin({
  name: "openai",
  api: 1,
  needs: ["secret"],
  devices: {
    "/dev/llm/openai": {
      factory: async (_subpath, _flags, context) => {
        const [{ openModel }, { compatible, modelsAt }] = await parts();
        const connect = (settings: Settings): Connection => {
          const { own, url, api, extra } = targetOf(settings);
          const list = (key: string): ListRequest => ({ ...modelsAt(url, key), ...(own && { talks }) });
          const speaks = api === "compatible" ? compatible(url, extra) : { ...openai(url, api, extra), list };
          return { blame: blameOf(own, url), needsKey: own, ...speaks };
        };
        return openModel(context, { name: "openai", models: [DEFAULT_MODEL], connect });
      },
      provider: {
        keyEnvs: ["OPENAI_API_KEY"],
        needsKey: true,
        baseUrlEnv: "OPENAI_BASE_URL",
        listsModels: true,
        service: "https://api.openai.com",
        detect: async (env) => (env.OPENAI_API_KEY ? { model: DEFAULT_MODEL } : null),
      },
    },
  },
});

const parts = once(() => Promise.all([import("./_model/open.ts"), import("./_model/compatible.ts")]));

/** Its list also has models for other purposes. */
function talks(id: string): boolean {
  return !/embedding|whisper|tts|dall-e|moderation|image|audio|realtime|transcribe|sora|davinci|babbage/.test(
    id,
  );
}

const DEFAULT_MODEL = "gpt-6-astra";
const OPENAI_URL = "https://api.openai.com/v1";
const APIS = ["responses", "chat", "compatible"] as const;

interface Target {
  /** OpenAI itself, which needs a key. */
  own: boolean;
  url: string;
  api: (typeof APIS)[number];
  extra: Settings["extra"];
}

function targetOf(settings: Settings): Target {
  const url = settings.base_url ?? OPENAI_URL;
  const own = new URL(url).host === new URL(OPENAI_URL).host;
  const { api = own ? "responses" : "compatible", ...extra } = settings.extra;
  const known = APIS.find((one) => one === api);
  if (known !== undefined) return { own, url, api: known, extra };
  const message = `extra.api must be one of ${APIS.join(", ")}, not ${JSON.stringify(api)}`;
  throw new SyscallError("INVALID", message);
}

function blameOf(own: boolean, url: string): Connection["blame"] {
  return {
    provider: own ? "OpenAI" : "the model server",
    keyVariable: "OPENAI_API_KEY",
    urlVariable: "OPENAI_BASE_URL, or base_url of the provider's entry",
    url,
  };
}

function openai(
  url: string,
  api: "responses" | "chat",
  extra: Settings["extra"],
): Pick<Connection, "languageModel" | "options" | "hasEffort" | "stopWordOf"> {
  // The provider stores no conversation: every request carries all of it.
  const own = api === "responses" ? { store: false, ...extra } : extra;
  return {
    languageModel: (access) => languageModel(url, api, access),
    ...(api === "responses" && { stopWordOf: statusOf }),
    hasEffort: (body) =>
      typeof body === "object" && body !== null && ("reasoning" in body || "reasoning_effort" in body),
    options: (options, request) => {
      const form = answerForm(request);
      // The only form it accepts is an object.
      if (!form?.isObject) return { ...options, providerOptions: { openai: own } };
      const openai = { strictJsonSchema: form.strict, ...own };
      return { ...options, responseFormat: form.responseFormat, providerOptions: { openai } };
    },
  };
}

const ENDS: ReadonlySet<unknown> = new Set(["response.completed", "response.incomplete"]);

/** The status of an incomplete answer, which the package drops when no reason is given. */
function statusOf(document: unknown): string | undefined {
  if (!isObject(document)) return undefined;
  const response = document.object === "response" ? document : ENDS.has(document.type) && document.response;
  if (!isObject(response) || typeof response.status !== "string") return undefined;
  return response.status === "completed" ? undefined : response.status;
}

async function languageModel(
  url: string,
  api: "responses" | "chat",
  { model, key, fetch }: Access,
): Promise<LanguageModelV4> {
  const { createOpenAI } = await import("@ai-sdk/openai");
  // The package takes an empty key for a missing one and would look for it in the environment.
  const provider = createOpenAI({ baseURL: url, apiKey: key === "" ? "none" : key, fetch });
  return api === "responses" ? provider.responses(model) : provider.chat(model);
}
