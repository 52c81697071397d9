import type { LanguageModelV4, LanguageModelV4CallOptions } from "@ai-sdk/provider";
import type { LLMRequest, OpenContext, VFSFile } from "rnix/plugin";
import { AiSdkModel } from "./ai-sdk.ts";
import type { Blame } from "./failure.ts";
import { requestFetch } from "./fetch.ts";
import { Memo } from "./memo.ts";
import { ModelFile } from "./model-file.ts";
import { keyOf, type Settings, settingsOf } from "./settings.ts";

/** What is particular to one driver behind a provider package. */
export interface HttpDriver {
  /** Its device is `/dev/llm/<name>`. */
  name: string;
  /** Models it is known to have; any other name may be asked for too. */
  models: string[];
  /** INVALID when the provider's entry is not as the driver needs it. */
  connect(settings: Settings): Connection;
}

/** One server, as the provider's entry has it. */
export interface Connection {
  /** Whom a failure is put down to, and what a person would look at. */
  blame: Omit<Blame, "model" | "key">;
  /** The server takes no request without a key. */
  needsKey: boolean;
  /** The package's model; the package is loaded here, with the first request. */
  languageModel(access: Access): Promise<LanguageModelV4>;
  /** What the driver adds to a request's common form. */
  options(options: LanguageModelV4CallOptions, request: LLMRequest): LanguageModelV4CallOptions;
  /** For a package that drops the effort without a word where it thinks that the model has none. */
  hasEffort?(body: unknown): boolean;
  /** The word of an end that the package does not pass on, of an answer or of an event of its stream. */
  endWord?(document: unknown): string | undefined;
}

export interface Access {
  model: string;
  /** "" when there is none. */
  key: string;
  fetch: typeof fetch;
}

/** The model device of a driver that speaks HTTP. */
export function openModel(context: OpenContext, { name, models, connect }: HttpDriver): VFSFile {
  const connection = connect(settingsOf(context));
  const kept = new Memo<LanguageModelV4>();
  const told = new Set<string>();
  const leftOut = (what: string): void => {
    if (told.has(what)) return;
    told.add(what);
    context.progress(what);
  };
  // One answer at a time is read from a file: what comes is of the last one asked for.
  let heard = (): void => undefined;
  const model = new AiSdkModel(name, async (request, options) => {
    const key = await keyOf(context, { required: connection.needsKey });
    const blame: Blame = { ...connection.blame, model: request.model, key };
    const streams = request.stream === true;
    return {
      model: await kept.get([request.model, key, streams], () =>
        connection.languageModel({
          model: request.model,
          key,
          fetch: requestFetch(streams, blame, () => heard()),
        }),
      ),
      options: connection.options(options, request),
      blame,
      leftOut,
      ...(connection.endWord && { endWord: connection.endWord }),
      whenHeard: (told) => {
        heard = told;
      },
      sent: (body) => {
        if (request.effort !== undefined && connection.hasEffort?.(body) === false)
          leftOut(`effort ${request.effort} is left out: ${request.model} has no such setting`);
      },
    };
  });
  return new ModelFile(model, {
    name,
    devicePath: `/dev/llm/${name}`,
    models,
    can: { effort: true, images: true },
  });
}
