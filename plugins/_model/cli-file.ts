import type { Data, FileStat, LLMAnswer, LLMEvent, LLMRequest, OpenContext, VFSFile } from "rnix/plugin";
import { z } from "zod";
import { type ModelFacts, ModelFile } from "./model-file.ts";
import { settingsOf, unfit } from "./settings.ts";

/** One run of the program, begun. */
export interface Begun {
  events: AsyncIterable<LLMEvent>;
  /** Nothing of it is left when it resolves. Never rejects. */
  end(): Promise<void>;
}

/** Begins a run of the program for one request. */
export type Begin = (request: LLMRequest, signal: AbortSignal) => Promise<Begun>;

/** An open model device behind a CLI: each write is one run of it, which ends with its answer, or with the file. */
export class CliFile implements VFSFile {
  readonly #begin: Begin;
  readonly #file: ModelFile;
  #run: Begun | undefined;

  constructor(facts: ModelFacts, begin: Begin) {
    this.#begin = begin;
    this.#file = new ModelFile(
      {
        stream: (request, signal) => this.#start(request, signal),
        answer: async (request, signal) => whole(await this.#start(request, signal)),
      },
      facts,
    );
  }

  async write(data: Data, signal: AbortSignal): Promise<void> {
    await this.#run?.end();
    await this.#file.write(data, signal);
  }

  read(max: number, signal: AbortSignal): Promise<Data> {
    return this.#file.read(max, signal);
  }

  async close(): Promise<void> {
    await this.#file.close();
    await this.#run?.end();
  }

  stat(): Promise<FileStat> {
    return this.#file.stat();
  }

  async #start(request: LLMRequest, signal: AbortSignal): Promise<AsyncIterable<LLMEvent>> {
    this.#run = await this.#begin(request, signal);
    // Given up meanwhile: whoever closes the file may have done so already.
    if (signal.aborted) await this.#run.end();
    signal.throwIfAborted();
    return this.#run.events;
  }
}

/** `extra.command` of the provider's entry: the program, where it is not found by itself. */
export function commandOf(context: OpenContext): string | undefined {
  const result = Extra.safeParse(settingsOf(context).extra);
  if (result.success) return result.data.command;
  throw unfit(result.error, "extra");
}

const Extra = z.strictObject({
  command: z.string().startsWith("/", { error: "expected an absolute path" }).optional(),
});

/** The answer in one piece, for a request without `stream`: what was said after the last call. */
async function whole(events: AsyncIterable<LLMEvent>): Promise<LLMAnswer> {
  const answer: LLMAnswer = {
    content: "",
    tool_calls: [],
    stop_reason: "unknown",
    usage: { input_tokens: 0, output_tokens: 0, cached_tokens: 0 },
    tokens_used: 0,
  };
  for await (const event of events) {
    if (event.type === "text_delta") answer.content += event.text;
    else if (event.type === "turn") answer.content = "";
    else if (event.type === "usage") answer.usage = event.usage;
    else if (event.type === "stop") {
      answer.stop_reason = event.reason;
      if (event.word !== undefined) answer.stop_word = event.word;
    }
  }
  return { ...answer, tokens_used: answer.usage.input_tokens + answer.usage.output_tokens };
}
