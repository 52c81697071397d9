/** Models of servers with OpenAI's chat completions. */

import { AsyncLocalStorage } from "node:async_hooks";
import type { LanguageModelV4, LanguageModelV4CallOptions } from "@ai-sdk/provider";
import { SyscallError } from "rnix/plugin";
import { isObject } from "../_lib/json.ts";
import type { Access, Connection, ListRequest } from "./open.ts";
import { isCut, type Settings } from "./settings.ts";

/** Chat completions as servers other than OpenAI implement them. `extra` is copied into the request. */
export function compatible(
  url: string,
  extra: Settings["extra"],
): Pick<Connection, "languageModel" | "options" | "list"> {
  return {
    list: (key) => modelsAt(url, key),
    languageModel: (access) => languageModel(url, access),
    options: (options) => ({ ...options, providerOptions: { compatible: extra } }),
  };
}

export function modelsAt(url: string, key: string): ListRequest {
  const headers: Record<string, string> = key === "" ? {} : { authorization: `Bearer ${key}` };
  return { url: `${url.replace(/\/+$/, "")}/models`, headers };
}

/** The last model, without a key: the package builds the schemas of its answers in each model object. */
let shared: { url: string; model: string; made: Promise<LanguageModelV4> } | undefined;

/** What fetches for the call under way. */
const calls = new AsyncLocalStorage<typeof fetch>();

async function languageModel(url: string, { model, key, fetch }: Access): Promise<LanguageModelV4> {
  if (shared?.url !== url || shared.model !== model) shared = { url, model, made: sharedModel(url, model) };
  const common = await shared.made;
  const { specificationVersion, provider, modelId, supportedUrls } = common;
  const withKey = (options: LanguageModelV4CallOptions): LanguageModelV4CallOptions =>
    key === "" ? options : { ...options, headers: { ...options.headers, authorization: `Bearer ${key}` } };
  return {
    specificationVersion,
    provider,
    modelId,
    supportedUrls,
    doGenerate: (options) => calls.run(fetch, () => common.doGenerate(withKey(options))),
    doStream: (options) => calls.run(fetch, () => common.doStream(withKey(options))),
  };
}

async function sharedModel(url: string, model: string): Promise<LanguageModelV4> {
  const { createOpenAICompatible } = await import("@ai-sdk/openai-compatible");
  const ofCall: typeof fetch = Object.assign(
    (...request: Parameters<typeof fetch>) => {
      const fetch = calls.getStore();
      if (fetch === undefined) throw new SyscallError("DRIVER", "a request outside of a call of the model");
      return fetch(...request);
    },
    { preconnect: fetch.preconnect },
  );
  return createOpenAICompatible({
    name: NAME,
    baseURL: url,
    fetch: ofCall,
    includeUsage: true,
    metadataExtractor: { extractMetadata: async () => undefined, createStreamExtractor: cutWords },
  })(model);
}

const NAME = "compatible";

/** Some servers end a stream twice: with `length`, then with `stop`. The package knows the last word only. */
function cutWords(): { processChunk(chunk: unknown): void; buildMetadata(): CutMetadata | undefined } {
  let cut: string | undefined;
  return {
    processChunk(chunk) {
      const [choice] = isObject(chunk) && Array.isArray(chunk.choices) ? chunk.choices : [];
      const word: unknown = isObject(choice) ? choice.finish_reason : undefined;
      if (typeof word === "string" && isCut(word)) cut ??= word;
    },
    buildMetadata: () => (cut === undefined ? undefined : { [NAME]: { cut } }),
  };
}

type CutMetadata = Record<string, { cut: string }>;
