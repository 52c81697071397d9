import { type LLMEvent, SyscallError } from "rnix/plugin";
import { z } from "zod";
import type { CliStream } from "../_model/cli-run.ts";
import { jsonOf } from "../_model/lines.ts";

/** What `agent --print --output-format stream-json` prints (cursor.com/docs/cli/reference/output-format). */
export class Stream implements CliStream {
  /** Told of the program's own tool calls, which are none of the process's. */
  readonly #progress: (text: string) => void;
  #said = "";
  #ended = false;

  constructor(progress: (text: string) => void) {
    this.#progress = progress;
  }

  get ended(): boolean {
    return this.#ended;
  }

  *events(line: string): Generator<LLMEvent> {
    const { data } = Line.safeParse(jsonOf(line));
    // Of a kind nobody here knows, or its prompt again: it is at work.
    if (!data) yield AT_WORK;
    else if (data.type === "assistant")
      yield this.#words(data.message.content.map(({ text = "" }) => text).join(""));
    else if (data.type === "tool_call") yield* this.#toolCall(data);
    else if (data.type === "result") yield* this.#result(data);
    else yield AT_WORK;
  }

  /** Where it fails it prints no last line, and why on stderr. */
  brokenOff(how: string, errors: string): SyscallError {
    const told = errors.trim() === "" ? "" : `: ${errors.trim().slice(-500)}`;
    return new SyscallError(
      "UNAVAILABLE",
      `cursor ${how} before its answer was whole${told}. Check CURSOR_API_KEY and the model's name`,
      { retryable: true },
    );
  }

  /** One message of several; whole, as there are no deltas. */
  #words(text: string): LLMEvent {
    const words = this.#said === "" || text === "" ? text : `\n\n${text}`;
    this.#said += words;
    return { type: "text_delta", text: words };
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
    if (this.#said === "" && result) yield this.#words(result);
    if (usage) {
      const { inputTokens, outputTokens, cacheReadTokens } = usage;
      const used = { input_tokens: inputTokens + cacheReadTokens, output_tokens: outputTokens };
      yield { type: "usage", usage: { ...used, cached_tokens: cacheReadTokens } };
    }
    // It says how it ended, and not with what word its model did.
    const ended = subtype === undefined || subtype === "success";
    yield { type: "stop", ...(ended ? { reason: "end_turn" } : { reason: "other", word: subtype }) };
  }
}

/** An empty delta only says that it goes on. */
const AT_WORK: LLMEvent = { type: "reasoning_delta", text: "" };

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
  /** Of newer versions. */
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
