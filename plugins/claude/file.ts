import type { Data, FileStat, LLMAnswer, LLMEvent, LLMRequest, OpenContext, VFSFile } from "rnix/plugin";
import { z } from "zod";
import { ModelFile } from "../_model/model-file.ts";
import { keyOf, settingsOf } from "../_model/settings.ts";
import { binary } from "./binary.ts";
import { promptOf } from "./conversation.ts";
import { program } from "./program.ts";
import { Run } from "./run.ts";

/** An open /dev/llm/claude: each write is one run of the program, which ends with its answer, or with the file. */
export class ClaudeFile implements VFSFile {
  readonly #context: OpenContext;
  readonly #file: ModelFile;
  #run: Run | undefined;

  constructor(context: OpenContext) {
    this.#context = context;
    this.#file = new ModelFile(
      {
        answer: (request, signal) => this.#whole(request, signal),
        stream: (...asked) => this.#start(...asked),
      },
      {
        name: "claude",
        devicePath: "/dev/llm/claude",
        models: ["sonnet", "opus", "haiku"],
        can: { effort: true, runs_tools: true },
      },
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
    const context = this.#context;
    const { base_url: baseUrl, extra } = settingsOf(context);
    const { command } = Extra.parse(extra);
    const [found, key, systemPromptFile] = await Promise.all([
      binary(context, command),
      keyOf(context, { required: false }),
      context.spill("claude-system-prompt.txt", request.system_prompt),
    ]);
    signal.throwIfAborted();
    this.#run = new Run(context, signal);
    return this.#run.start(promptOf(request), request.tools?.length ? context.tools : undefined, (endpoint) =>
      program(found, request, { given: context.env, systemPromptFile, endpoint, baseUrl, key }),
    );
  }

  /** The answer in one piece, for a request without `stream`. */
  async #whole(request: LLMRequest, signal: AbortSignal): Promise<LLMAnswer> {
    const answer: LLMAnswer = {
      content: "",
      tool_calls: [],
      stop_reason: "unknown",
      usage: { input_tokens: 0, output_tokens: 0, cached_tokens: 0 },
      tokens_used: 0,
    };
    for await (const event of await this.#start(request, signal)) {
      if (event.type === "text_delta") answer.content += event.text;
      else if (event.type === "turn") answer.content = "";
      else if (event.type === "usage") answer.usage = event.usage;
      else if (event.type === "stop") answer.stop_reason = event.reason;
    }
    return { ...answer, tokens_used: answer.usage.input_tokens + answer.usage.output_tokens };
  }
}

const Extra = z.object({ command: z.string().startsWith("/").optional() });
