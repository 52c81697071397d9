import type { LanguageModelV4, LanguageModelV4CallOptions } from "@ai-sdk/provider";
import { definePlugin, type OpenContext, SyscallError, type VFSFile } from "rnix/plugin";
import type { Blame } from "./_model/failure.ts";
import type { Settings } from "./_model/settings.ts";

/**
 * OpenAI, and every server that speaks its protocol: OpenAI itself is asked for Responses, a server at a
 * base_url of its own for chat completions. `extra.api` (`responses`, `chat`, `compatible`) decides
 * otherwise; the rest of `extra` goes to the provider package and, for `compatible`, into the request.
 */
export default definePlugin({
  name: "openai",
  api: 1,
  needs: ["secret"],
  devices: {
    "/dev/llm/openai": {
      factory: (_subpath, _flags, context) => open("openai", context),
      provider: { detect: async (env) => (env.OPENAI_API_KEY ? { model: DEFAULT_MODEL } : null) },
    },
    "/dev/llm/openai-compatible": {
      factory: (_subpath, _flags, context) => open("openai-compatible", context),
      // Nothing in the environment says which model such a server has: it takes an entry, or --model.
      provider: { detect: async () => null },
    },
  },
});

const DEFAULT_MODEL = "gpt-6-astra";
const OPENAI_URL = "https://api.openai.com/v1";
const APIS = ["responses", "chat", "compatible"] as const;

interface Target {
  /** OpenAI itself, which takes no request without a key. */
  own: boolean;
  url: string;
  api: (typeof APIS)[number];
  extra: Settings["extra"];
}

async function open(name: "openai" | "openai-compatible", context: OpenContext): Promise<VFSFile> {
  const [{ ModelFile }, { AiSdkModel }, { Kept }, { settingsOf, keyOf }] = await Promise.all([
    import("./_model/model-file.ts"),
    import("./_model/ai-sdk.ts"),
    import("./_model/kept.ts"),
    import("./_model/settings.ts"),
  ]);
  const target = targetOf(name, settingsOf(context));
  const kept = new Kept<LanguageModelV4>();
  const model = new AiSdkModel(async (request, options) => {
    const key = await keyOf(context, { required: target.own });
    const blame: Blame = {
      provider: target.own ? "OpenAI" : "the model server",
      keyVariable: "OPENAI_API_KEY",
      urlVariable: "OPENAI_BASE_URL, or base_url of the provider's entry",
      url: target.url,
      model: request.model,
      key,
    };
    const streams = request.stream === true;
    return {
      model: await kept.get([request.model, key, streams], () => languageModel(target, streams, blame)),
      options: { ...options, providerOptions: providerOptions(target) },
      blame,
    };
  });
  const models = name === "openai" ? [DEFAULT_MODEL] : [];
  return new ModelFile(model, { name, devicePath: `/dev/llm/${name}`, models });
}

function targetOf(name: string, settings: Settings): Target {
  if (name === "openai-compatible" && settings.base_url === undefined)
    throw new SyscallError(
      "INVALID",
      "openai-compatible needs the server's address: set OPENAI_BASE_URL, or base_url in the provider's entry",
    );
  const url = settings.base_url ?? OPENAI_URL;
  const own = new URL(url).host === new URL(OPENAI_URL).host;
  const { api = own ? "responses" : "compatible", ...extra } = settings.extra;
  const known = APIS.find((one) => one === api);
  if (known !== undefined) return { own, url, api: known, extra };
  throw new SyscallError("INVALID", `extra.api is one of ${APIS.join(", ")}, not ${JSON.stringify(api)}`);
}

/** Only the package that is needed is loaded. */
async function languageModel(target: Target, streams: boolean, blame: Blame): Promise<LanguageModelV4> {
  const { requestFetch } = await import("./_model/fetch.ts");
  const common = { baseURL: target.url, fetch: requestFetch(streams, blame) };
  if (target.api === "compatible") {
    const { createOpenAICompatible } = await import("@ai-sdk/openai-compatible");
    const apiKey = blame.key === "" ? undefined : blame.key;
    return createOpenAICompatible({ ...common, name: "compatible", apiKey, includeUsage: true })(blame.model);
  }
  const { createOpenAI } = await import("@ai-sdk/openai");
  // The package takes an empty key for a missing one and would look for it in the environment.
  const provider = createOpenAI({ ...common, apiKey: blame.key === "" ? "none" : blame.key });
  return target.api === "responses" ? provider.responses(blame.model) : provider.chat(blame.model);
}

function providerOptions({ api, extra }: Target): LanguageModelV4CallOptions["providerOptions"] {
  if (api === "compatible") return { compatible: extra };
  // Nothing of a conversation is to stay with the provider: every request carries all of it.
  return { openai: api === "responses" ? { store: false, ...extra } : extra };
}
