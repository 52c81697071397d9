/** Opens the model device of a driver that speaks HTTP. */

import type { LanguageModelV4, LanguageModelV4CallOptions } from "@ai-sdk/provider";
import type { ListedModel, LLMAnswer, LLMEvent, LLMRequest, OpenContext, VFSFile } from "rnix/plugin";
import { AiSdkModel, type Prepared } from "./ai-sdk.ts";
import type { Blame } from "./failure.ts";
import { requestFetch } from "./fetch.ts";
import { type Model, type ModelFacts, ModelFile } from "./model-file.ts";
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

/** A driver with the settings of a provider's entry. All open devices with the same settings share it. */
interface Connected {
  settings: Settings;
  connection: Connection;
  /** Who is named in a failure. */
  who: Omit<Blame, "model" | "key">;
  facts: ModelFacts;
}

/** Of each driver, by its name, the last one. */
const connected = new Map<string, Connected>();

/** The model device of a driver that speaks HTTP. */
export function openModel(context: OpenContext, driver: HttpDriver): VFSFile {
  const settings = settingsOf(context);
  let made = connected.get(driver.name);
  if (made === undefined || !Bun.deepEquals(made.settings, settings, true)) {
    made = connectedBy(driver, settings);
    connected.set(driver.name, made);
  }
  return new ModelFile(new HttpModel(context, made), made.facts);
}

function connectedBy({ name, models, connect }: HttpDriver, settings: Settings): Connected {
  const connection = connect(settings);
  const { keyVariable, ...server } = connection.blame;
  const who = { ...server, keyVariable: settings.key_source ?? keyVariable };
  const can = { effort: true, images: true } as const;
  return { settings, connection, who, facts: { name, devicePath: `/dev/llm/${name}`, models, can } };
}

/** The model of one open device. It is small until its first request, because thousands of devices may wait for one. */
class HttpModel implements Model {
  readonly #context: Pick<OpenContext, "env" | "secret" | "progress">;
  readonly #connected: Connected;
  #model: AiSdkModel | undefined;
  /** What was reported as left out. */
  #reported: Set<string> | undefined;
  /** A file has one answer at a time: bytes belong to the last request. */
  #onBytes: (() => void) | undefined;

  constructor({ env, secret, progress }: OpenContext, connected: Connected) {
    // The whole context would take a KiB of each device.
    this.#context = { env, secret, progress };
    this.#connected = connected;
  }

  answer(request: LLMRequest, signal: AbortSignal): Promise<LLMAnswer> {
    return this.#made().answer(request, signal);
  }

  stream(request: LLMRequest, signal: AbortSignal): Promise<AsyncIterable<LLMEvent>> {
    return this.#made().stream(request, signal);
  }

  async list(signal: AbortSignal): Promise<ListedModel[]> {
    const { connection, who } = this.#connected;
    const key = await keyOf(this.#context, { required: connection.needsKey });
    const { listModels } = await import("./model-list.ts");
    return listModels(connection.list(key), { ...who, model: "", key }, this.#context.env, signal);
  }

  #made(): AiSdkModel {
    const { name } = this.#connected.facts;
    this.#model ??= new AiSdkModel(name, (request, options) => this.#prepare(request, options));
    return this.#model;
  }

  async #prepare(request: LLMRequest, options: LanguageModelV4CallOptions): Promise<Prepared> {
    const { connection, who } = this.#connected;
    const { env } = this.#context;
    const key = await keyOf(this.#context, { required: connection.needsKey });
    const blame: Blame = { ...who, model: request.model, key };
    const streams = request.stream === true;
    const onLeftOut = (what: string): void => this.#leaveOut(what);
    return {
      model: await connection.languageModel({
        model: request.model,
        key,
        fetch: requestFetch(streams, blame, env, () => this.#onBytes?.(), request.traceparent),
      }),
      options: connection.options(options, request),
      blame,
      onLeftOut,
      ...(connection.stopWordOf && { stopWordOf: connection.stopWordOf }),
      onBytes: (listener) => {
        this.#onBytes = listener;
      },
      onRequestBody: (body) => {
        if (request.effort !== undefined && connection.hasEffort?.(body) === false)
          onLeftOut(`effort ${request.effort} is left out: ${request.model} has no such setting`);
      },
    };
  }

  #leaveOut(what: string): void {
    if (this.#reported?.has(what)) return;
    this.#reported ??= new Set();
    this.#reported.add(what);
    this.#context.progress(what);
  }
}
