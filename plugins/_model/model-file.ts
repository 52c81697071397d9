import {
  type Data,
  type FileStat,
  type LLMAnswer,
  type LLMEvent,
  type LLMRequest,
  SyscallError,
  type VFSFile,
} from "rnix/plugin";
import { parseRequest } from "./request.ts";

/** What a model driver brings: how one request is answered. Throws SyscallErrors, and never tries twice. */
export interface Model {
  answer(request: LLMRequest, signal: AbortSignal): Promise<LLMAnswer>;
  /** Resolves when the answer begins. The last event is `stop`; one that breaks off throws instead. */
  stream(request: LLMRequest, signal: AbortSignal): Promise<AsyncIterable<LLMEvent>>;
}

export interface ModelFacts {
  name: string;
  devicePath: string;
  /** Models it is known to have; any other name may be asked for too. */
  models: string[];
  /** What `stat` says beside that: whether it passes on `effort`, takes `images`, calls tools by itself. */
  can?: { effort?: true; images?: true; runs_tools?: true; confined?: false };
}

/**
 * An open model device: each write is a request, the reads after it are its answer. Streamed, every read
 * gives one `LLMEvent`; else the first gives the `LLMAnswer`. What is longer than a read's `max` goes on in
 * the next read. An empty read is the end. A new write gives up the answer before it.
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

/** One answer under way; owns the request behind it. */
class Answer {
  documents: AsyncIterator<string> = nothing();
  /** What did not fit into the last read. */
  rest = "";
  readonly #controller = new AbortController();
  /** Of the call under way: one serves at a time. */
  #giveUp: (reason: unknown) => void = () => undefined;
  #followed: AbortSignal | undefined;
  readonly #onAbort = () => this.#giveUp(cancelled(this.#followed?.reason));

  async next(): Promise<string> {
    const { done, value } = await this.documents.next();
    return done === true ? "" : value;
  }

  end(): void {
    this.#follow(undefined);
    this.documents = nothing();
    this.#controller.abort(new SyscallError("CANCELLED", "the model's answer was given up"));
  }

  /** Does a part of it under a call's signal. What fails or is aborted ends the answer, and the request. */
  async during<T>(signal: AbortSignal, work: (ended: AbortSignal) => Promise<T>): Promise<T> {
    try {
      if (signal.aborted) throw cancelled(signal.reason);
      this.#follow(signal);
      const aborted = Promise.withResolvers<never>();
      this.#giveUp = aborted.reject;
      return await Promise.race([work(this.#controller.signal), aborted.promise]);
    } catch (error) {
      this.end();
      throw error;
    }
  }

  /** The calls of one answer come with the same signal: it is listened to once, not anew for each piece. */
  #follow(signal: AbortSignal | undefined): void {
    if (signal === this.#followed) return;
    this.#followed?.removeEventListener("abort", this.#onAbort);
    this.#followed = signal;
    signal?.addEventListener("abort", this.#onAbort, { once: true });
  }
}

async function* documents(events: AsyncIterable<LLMEvent>): AsyncGenerator<string> {
  for await (const event of events) yield JSON.stringify(event);
}

async function* single(answer: LLMAnswer): AsyncGenerator<string> {
  yield JSON.stringify(answer);
}

async function* nothing(): AsyncGenerator<string> {}

function cancelled(reason: unknown): SyscallError {
  if (reason instanceof SyscallError) return reason;
  return new SyscallError("CANCELLED", "the model call was cancelled", { cause: reason });
}
