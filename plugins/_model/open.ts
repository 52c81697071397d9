/** Opens the model device of a driver that speaks HTTP. */

import type { LanguageModelV4, LanguageModelV4CallOptions } from "@ai-sdk/provider";
import type { ListedModel, LLMRequest, OpenContext, VFSFile } from "rnix/plugin";
import { AiSdkModel } from "./ai-sdk.ts";
import type { Blame } from "./failure.ts";
import { requestFetch } from "./fetch.ts";
import { ModelFile } from "./model-file.ts";
import type { ListRequest } from "./model-list.ts";
import { keyOf, type Settings, settingsOf } from "./settings.ts";

/** What is specific to one driver behind a provider package. */
export interface HttpDriver {
  /** Its device is `/dev/llm/<name>`. */
  name: string;
  /** Known models; any other name may be requested too. */
  models: string[];
  /** INVALID when the provider's entry does not fit the driver. */
  connect(settings: Settings): Connection;
}

/** One server, by the provider's entry. */
export interface Connection {
  /** Who is named in a failure, and what the user can check. */
  blame: Omit<Blame, "model" | "key">;
  /** Whether the server refuses requests without a key. */
  needsKey: boolean;
  /** The package's model; the package is loaded here, with the first request. */
  languageModel(access: Access): Promise<LanguageModelV4>;
  /** Asks for the service's list of models. */
  list(key: string): ListRequest;
  /** Adds the driver's part to a request's common form. */
  options(options: LanguageModelV4CallOptions, request: LLMRequest): LanguageModelV4CallOptions;
  /** For a package that silently drops the effort where it believes the model has none. */
  hasEffort?(body: unknown): boolean;
  /** The stop word that the package drops, from an answer or an event of its stream. */
  stopWordOf?(document: unknown): string | undefined;
}

export interface Access {
  model: string;
  /** "" when there is none. */
  key: string;
  fetch: typeof fetch;
}

/** The model device of a driver that speaks HTTP. */
export function openModel(context: OpenContext, { name, models, connect }: HttpDriver): VFSFile {
  const settings = settingsOf(context);
  const connection = connect(settings);
  const { keyVariable, ...server } = connection.blame;
  const who = { ...server, keyVariable: settings.key_source ?? keyVariable };
  const reported = new Set<string>();
  const onLeftOut = (what: string): void => {
    if (reported.has(what)) return;
    reported.add(what);
    context.progress(what);
  };
  // A file has one answer at a time: bytes belong to the last request.
  let onBytes = (): void => undefined;
  const model = new AiSdkModel(name, async (request, options) => {
    const key = await keyOf(context, { required: connection.needsKey });
    const blame: Blame = { ...who, model: request.model, key };
    const streams = request.stream === true;
    return {
      model: await connection.languageModel({
        model: request.model,
        key,
        fetch: requestFetch(streams, blame, context.env, () => onBytes(), request.traceparent),
      }),
      options: connection.options(options, request),
      blame,
      onLeftOut,
      ...(connection.stopWordOf && { stopWordOf: connection.stopWordOf }),
      onBytes: (listener) => {
        onBytes = listener;
      },
      onRequestBody: (body) => {
        if (request.effort !== undefined && connection.hasEffort?.(body) === false)
          onLeftOut(`effort ${request.effort} is left out: ${request.model} has no such setting`);
      },
    };
  });
  const list = async (signal: AbortSignal): Promise<ListedModel[]> => {
    const key = await keyOf(context, { required: connection.needsKey });
    const { listModels } = await import("./model-list.ts");
    return listModels(connection.list(key), { ...who, model: "", key }, context.env, signal);
  };
  const listing = {
    answer: (request: LLMRequest, signal: AbortSignal) => model.answer(request, signal),
    stream: (request: LLMRequest, signal: AbortSignal) => model.stream(request, signal),
    list,
  };
  return new ModelFile(listing, {
    name,
    devicePath: `/dev/llm/${name}`,
    models,
    can: { effort: true, images: true },
  });
}
