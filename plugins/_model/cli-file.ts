/** The model device of a driver that runs a CLI program. */

import type { Data, FileStat, LLMAnswer, LLMEvent, LLMRequest, OpenContext, VFSFile } from "rnix/plugin";
import { z } from "zod";
import { type ModelFacts, ModelFile } from "./model-file.ts";
import { invalidEntry, settingsOf } from "./settings.ts";

interface StartedRun {
  events: AsyncIterable<LLMEvent>;
  /** Ends it; nothing of it runs any more when this resolves. Never rejects. */
  end(): Promise<void>;
}

type StartRun = (request: LLMRequest, signal: AbortSignal) => Promise<StartedRun>;

/** An open model device behind a CLI. Each write runs the program once, until its answer or until the file closes. */
export class CliFile implements VFSFile {
  readonly #startRun: StartRun;
  readonly #file: ModelFile;
  #run: StartedRun | undefined;

  constructor(facts: ModelFacts, startRun: StartRun) {
    this.#startRun = startRun;
    this.#file = new ModelFile(
      {
        stream: (request, signal) => this.#start(request, signal),
        answer: async (request, signal) => collected(await this.#start(request, signal)),
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
    this.#run = await this.#startRun(request, signal);
    // Cancelled meanwhile, when the file may be closed already.
    if (signal.aborted) await this.#run.end();
    signal.throwIfAborted();
    return this.#run.events;
  }
}

/** `extra.command` of the provider's entry: the path of the program, for one that is not found otherwise. */
export function commandOf(context: OpenContext): string | undefined {
  const result = Extra.safeParse(settingsOf(context).extra);
  if (result.success) return result.data.command;
  throw invalidEntry(result.error, "extra");
}

const Extra = z.strictObject({
  command: z.string().startsWith("/", { error: "expected an absolute path" }).optional(),
});

/** The answer in one piece, for a request without `stream`: the text after the last tool call. */
async function collected(events: AsyncIterable<LLMEvent>): Promise<LLMAnswer> {
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
