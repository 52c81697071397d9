/** Models of servers with OpenAI's chat completions. */

import type { LanguageModelV4 } from "@ai-sdk/provider";
import { isObject } from "../_lib/is-object.ts";
import type { ListRequest } from "./model-list.ts";
import type { Access, Connection } from "./open.ts";
import type { Settings } from "./settings.ts";
import { isCut } from "./stop-words.ts";

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

/** The list of models in OpenAI's protocol. */
export function modelsAt(url: string, key: string): ListRequest {
  const headers: Record<string, string> = key === "" ? {} : { authorization: `Bearer ${key}` };
  return { url: `${url.replace(/\/+$/, "")}/models`, headers };
}

async function languageModel(url: string, { model, key, fetch }: Access): Promise<LanguageModelV4> {
  const { createOpenAICompatible } = await import("@ai-sdk/openai-compatible");
  const apiKey = key === "" ? undefined : key;
  return createOpenAICompatible({
    name: NAME,
    baseURL: url,
    apiKey,
    fetch,
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
