/** The model device: passes requests to a driver's model and returns its answers in pieces. */

import {
  type Data,
  type FileStat,
  type ListedModel,
  type LLMAnswer,
  type LLMEvent,
  type LLMRequest,
  type ModelList,
  SyscallError,
  type VFSFile,
} from "rnix/plugin";
import { cancelled, throwIfAborted } from "../_lib/cancelled.ts";
import { asksForModels, parseRequest } from "./request.ts";

/** How a model driver answers one request. Throws SyscallErrors, and never retries. */
export interface Model {
  answer(request: LLMRequest, signal: AbortSignal): Promise<LLMAnswer>;
  /** The models of its service. Absent: the driver can't tell. */
  list?(signal: AbortSignal): Promise<ListedModel[]>;
  /** Resolves when the answer begins. The last event is `stop`; an answer that breaks off throws. */
  stream(request: LLMRequest, signal: AbortSignal): Promise<AsyncIterable<LLMEvent>>;
}

export interface ModelFacts {
  name: string;
  devicePath: string;
  /** Known models; any other name may be requested too. */
  models: string[];
  /** What else `stat` reports: whether it passes on `effort`, takes `images`, calls tools by itself. */
  can?: { effort?: true; images?: true; runs_tools?: true; confined?: false };
}

/**
 * An open model device: each write is a request, and the reads after it return its answer. When streaming, each read
 * returns one `LLMEvent`, else the first read returns the `LLMAnswer`. What exceeds a read's `max` follows in the next
 * one. An empty read is the end. A new write cancels the answer before it.
 */
export class ModelFile implements VFSFile {
  readonly #model: Model;
  readonly #facts: ModelFacts;
  #answer: Answer | undefined;

  constructor(model: Model, facts: ModelFacts) {
    this.#model = model;
    this.#facts = facts;
  }

  async write(data: Data, signal: AbortSignal): Promise<void> {
    this.#answer?.end();
    const answer = new Answer();
    this.#answer = answer;
    const { list } = this.#model;
    if (list !== undefined && asksForModels(data)) {
      await answer.during(signal, async (ended) => {
        answer.documents = single({ models: await list(ended) });
      });
      return;
    }
    const request = parseRequest(data);
    await answer.during(signal, async (ended) => {
      if (request.stream === true) answer.documents = documents(await this.#model.stream(request, ended));
      else answer.documents = single(await this.#model.answer(request, ended));
    });
  }

  async read(max: number, signal: AbortSignal): Promise<Data> {
    const answer = this.#answer;
    if (answer === undefined)
      throw new SyscallError("INVALID", `write a request to ${this.#facts.devicePath} before reading`);
    if (answer.rest === "") answer.rest = await answer.during(signal, () => answer.next());
    const piece = answer.rest.slice(0, max);
    answer.rest = answer.rest.slice(piece.length);
    return piece;
  }

  async close(): Promise<void> {
    this.#answer?.end();
  }

  async stat(): Promise<FileStat> {
    const { name, devicePath, models, can } = this.#facts;
    return {
      name,
      size: 0,
      isDevice: true,
      devicePath,
      models,
      streams: true,
      tools: true,
      confined: true,
      ...can,
    };
  }
}

/** An answer in progress; owns the request behind it. */
class Answer {
  documents: AsyncIterator<string> = nothing();
  /** What exceeded the last read. */
  rest = "";
  readonly #controller = new AbortController();
  /** Rejects the current read or write; there is one at a time. */
  #reject: (reason: unknown) => void = () => undefined;
  #signal: AbortSignal | undefined;
  readonly #onAbort = () => this.#reject(cancelled(this.#signal?.reason));

  async next(): Promise<string> {
    const { done, value } = await this.documents.next();
    return done === true ? "" : value;
  }

  end(): void {
    this.#listenTo(undefined);
    this.documents = nothing();
    this.#controller.abort(new SyscallError("CANCELLED", "the model's answer was cancelled"));
  }

  /** Does one part of the work under a call's signal. A failure or an abort ends the answer and its request. */
  async during<T>(signal: AbortSignal, work: (ended: AbortSignal) => Promise<T>): Promise<T> {
    try {
      throwIfAborted(signal);
      this.#listenTo(signal);
      const aborted = Promise.withResolvers<never>();
      this.#reject = aborted.reject;
      return await Promise.race([work(this.#controller.signal), aborted.promise]);
    } catch (error) {
      this.end();
      throw error;
    }
  }

  /** All calls of one answer have the same signal: it gets one listener, not one for each piece. */
  #listenTo(signal: AbortSignal | undefined): void {
    if (signal === this.#signal) return;
    this.#signal?.removeEventListener("abort", this.#onAbort);
    this.#signal = signal;
    signal?.addEventListener("abort", this.#onAbort, { once: true });
  }
}

async function* documents(events: AsyncIterable<LLMEvent>): AsyncGenerator<string> {
  for await (const event of events) yield JSON.stringify(event);
}

async function* single(answer: LLMAnswer | ModelList): AsyncGenerator<string> {
  yield JSON.stringify(answer);
}

async function* nothing(): AsyncGenerator<string> {}
