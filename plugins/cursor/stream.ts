/** Reads the events that the Cursor CLI prints. */

import { type LLMEvent, SyscallError } from "rnix/plugin";
import { z } from "zod";
import { AT_WORK, type CliStream, jsonOf } from "../_model/cli-run.ts";

/** Reads what `agent --print --output-format stream-json` prints (cursor.com/docs/cli/reference/output-format). */
export class Stream implements CliStream {
  readonly name = "cursor";
  /** When it fails it prints no last line, and the reason on stderr. */
  readonly advice = "Check CURSOR_API_KEY and the model's name";
  /** Reports the program's own tool calls, which are not calls of the process. */
  readonly #progress: (text: string) => void;
  #text = "";
  #ended = false;

  constructor(progress: (text: string) => void) {
    this.#progress = progress;
  }

  get ended(): boolean {
    return this.#ended;
  }

  *events(line: string): Generator<LLMEvent> {
    const { data } = Line.safeParse(jsonOf(line));
    // An unknown kind of line, or its prompt.
    if (!data) yield AT_WORK;
    else if (data.type === "assistant")
      yield this.#message(data.message.content.map(({ text = "" }) => text).join(""));
    else if (data.type === "tool_call") yield* this.#toolCall(data);
    else if (data.type === "result") yield* this.#result(data);
    else yield AT_WORK;
  }

  /** One complete message: there are no deltas. */
  #message(text: string): LLMEvent {
    const separated = this.#text === "" || text === "" ? text : `\n\n${text}`;
    this.#text += separated;
    return { type: "text_delta", text: separated };
  }

  *#toolCall({ subtype, tool_call }: z.infer<typeof ToolCall>): Generator<LLMEvent> {
    if (subtype === "started") {
      for (const [name, { args }] of Object.entries(tool_call)) {
        this.#progress(
          `${name.replace(/ToolCall$/, "")} ${JSON.stringify(args ?? {}).slice(0, 200)} (unconfined)`,
        );
      }
    }
    yield AT_WORK;
  }

  *#result({ subtype, is_error, result, usage }: z.infer<typeof Result>): Generator<LLMEvent> {
    this.#ended = true;
    if (is_error) throw new SyscallError("DRIVER", `cursor: ${result ?? "it failed"}`, { retryable: true });
    if (this.#text === "" && result) yield this.#message(result);
    if (usage) {
      const { inputTokens, outputTokens, cacheReadTokens } = usage;
      const used = { input_tokens: inputTokens + cacheReadTokens, output_tokens: outputTokens };
      yield { type: "usage", usage: { ...used, cached_tokens: cacheReadTokens } };
    }
    // The result does not carry the stop word of the model.
    const ended = subtype === undefined || subtype === "success";
    yield { type: "stop", ...(ended ? { reason: "end_turn" } : { reason: "other", word: subtype }) };
  }
}

const ToolCall = z.object({
  type: z.literal("tool_call"),
  subtype: z.string(),
  tool_call: z.record(z.string(), z.object({ args: z.unknown() })),
});

const Result = z.object({
  type: z.literal("result"),
  subtype: z.string().optional(),
  is_error: z.boolean().default(false),
  result: z.string().nullish(),
  /** Newer versions only. */
  usage: z
    .object({
      inputTokens: z.number(),
      outputTokens: z.number(),
      cacheReadTokens: z.number().default(0),
    })
    .nullish(),
});

const Line = z.discriminatedUnion("type", [
  z.object({ type: z.enum(["system", "user"]) }),
  z.object({
    type: z.literal("assistant"),
    message: z.object({ content: z.array(z.object({ text: z.string().optional() })) }),
  }),
  ToolCall,
  Result,
]);
