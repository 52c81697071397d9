/** Opens the model device of a driver that speaks HTTP, with the fetch of its provider package. */

import type { LanguageModelV4, LanguageModelV4CallOptions } from "@ai-sdk/provider";
import {
  type ListedModel,
  type LLMAnswer,
  type LLMEvent,
  type LLMRequest,
  type OpenContext,
  SyscallError,
  type VFSFile,
} from "rnix/plugin";
import { JsonDepth, MAX_LEVELS } from "../_lib/json.ts";
import { proxyFor } from "../_lib/proxy.ts";
import { AiSdkModel, type Prepared } from "./ai-sdk.ts";
import { errorDocument } from "./error-document.ts";
import { type Blame, redirected, reported, unreachable } from "./failure.ts";
import { type Model, type ModelFacts, ModelFile } from "./model-file.ts";
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
  list(key: string): ListRequest;
  /** Adds the driver's part to a request's common form. */
  options(options: LanguageModelV4CallOptions, request: LLMRequest): LanguageModelV4CallOptions;
  /** For a package that silently drops the effort where it believes the model has none. */
  hasEffort?(body: unknown): boolean;
  /** The stop word that the package drops, from an answer or an event of its stream. */
  stopWordOf?(document: unknown): string | undefined;
}

/** The request for a service's list of models. */
export interface ListRequest {
  url: string;
  headers: Record<string, string>;
  /** Whether a model of this name answers conversations. Absent: each does, unless the list says otherwise. */
  talks?(id: string): boolean;
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

/**
 * The `fetch` given to a provider package for one request. It has no time limit of its own and follows no redirect:
 * key and conversation go only to the address they were meant for. It turns into errors what packages do not handle:
 * an unreachable server, a web page, an error document instead of a stream, an answer too large or nested too deeply.
 * `onBytes` is called whenever a part of an answer has arrived. `env` is the run's environment, which may name a proxy.
 * `traceparent` becomes a header.
 */
export function requestFetch(
  streams: boolean,
  blame: Blame,
  env: Readonly<Record<string, string>>,
  onBytes: () => void,
  traceparent?: string,
): typeof fetch {
  const request = async (input: Input, given?: RequestInit): Promise<Response> => {
    const headers = traceparent === undefined ? undefined : new Headers(given?.headers);
    headers?.set("traceparent", traceparent ?? "");
    const init = headers ? { ...given, headers } : given;
    const response = bounded(await reach(input, init, blame, env), streams, blame, onBytes);
    const location = response.headers.get("location");
    if (response.status >= 300 && response.status < 400 && location !== null) {
      await response.body?.cancel();
      throw redirected(blame, response.status, location);
    }
    if (!response.ok) return response;
    const type = response.headers.get("content-type") ?? "";
    if (type.startsWith("text/html")) {
      await response.body?.cancel();
      const message = `${blame.provider} at ${blame.url} answered with a web page. Check ${blame.urlVariable}`;
      throw new SyscallError("DRIVER", message, { retryable: false });
    }
    return type.startsWith("application/json") ? await inspected(response, streams, blame) : response;
  };
  return Object.assign(request, { preconnect: fetch.preconnect });
}

type Input = Parameters<typeof fetch>[0];

async function reach(
  input: Input,
  init: RequestInit | undefined,
  blame: Blame,
  env: Readonly<Record<string, string>>,
): Promise<Response> {
  const proxy = proxyFor(input instanceof Request ? input.url : String(input), env);
  const options: BunFetchRequestInit = {
    ...init,
    timeout: false,
    redirect: "manual",
    ...(proxy !== undefined && { proxy }),
  };
  try {
    return await fetch(input, options);
  } catch (error) {
    if (init?.signal?.aborted === true) throw error;
    throw unreachable(error, blame);
  }
}

const MB = 1024 ** 2;
/** The longest answers, with an event for each word, have about 80 MB. */
const MAX_STREAM = 256 * MB;
const MAX_DOCUMENT = 32 * MB;

/** The response, its body ended where it is too large or nested too deeply to be parsed. */
function bounded(response: Response, streams: boolean, blame: Blame, onBytes: () => void): Response {
  if (response.body === null) return response;
  const hasEvents = streams && response.ok;
  const maxBytes = hasEvents ? MAX_STREAM : MAX_DOCUMENT;
  const depth = new JsonDepth(hasEvents ? "events" : "one");
  let bytes = 0;
  const counted = new TransformStream<Uint8Array, Uint8Array>({
    transform(chunk, controller) {
      bytes += chunk.byteLength;
      if (bytes > maxBytes) throw tooLarge(blame, maxBytes);
      if (depth.exceeds(chunk)) {
        if (response.ok) throw tooDeep(blame);
        // The status of a failed request says enough without its body.
        controller.terminate();
        return;
      }
      if (depth.bytes > MAX_DOCUMENT) throw tooLarge(blame, MAX_DOCUMENT);
      if (response.ok) onBytes();
      controller.enqueue(chunk);
    },
  });
  return new Response(response.body.pipeThrough(counted), response);
}

function tooLarge({ provider, url }: Blame, max: number): SyscallError {
  const message = `${provider} at ${url} answered with more than ${max / MB} MB`;
  return new SyscallError("DRIVER", message, { retryable: false });
}

function tooDeep({ provider, url }: Blame): SyscallError {
  const message = `${provider} at ${url} answered with JSON nested more than ${MAX_LEVELS} levels deep`;
  return new SyscallError("DRIVER", message, { retryable: true });
}

/** An answer in one piece is checked for errors before the package reads it: packages handle those differently. */
async function inspected(response: Response, streams: boolean, blame: Blame): Promise<Response> {
  const body = await response.text();
  const document = errorDocument(body);
  if (document !== undefined) throw reported(document, blame);
  if (!streams) return new Response(body, response);
  const message = `${blame.provider} at ${blame.url} was asked for a stream and answered in one piece that is not an error`;
  throw new SyscallError("DRIVER", message, { retryable: true });
}
