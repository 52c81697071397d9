/** Finds the Cursor CLI, opens it as the device /dev/llm/cursor, and reads the events that it prints. */

import { type LLMEvent, type LLMRequest, type OpenContext, SyscallError } from "rnix/plugin";
import { z } from "zod";
import { CliFile, commandOf } from "../_model/cli-file.ts";
import { findProgram, isFile } from "../_model/cli-program.ts";
import { AT_WORK, CliRun, type CliStream, jsonOf, type Program, promptOf } from "../_model/cli-run.ts";
import type { ModelFacts } from "../_model/model-file.ts";
import { keyOf } from "../_model/settings.ts";

const FACTS: ModelFacts = {
  name: "cursor",
  devicePath: "/dev/llm/cursor",
  models: ["auto"],
  can: { runs_tools: true, confined: false },
};

/** The prompt is one argument, which the system limits to 128 KiB with its end. */
const MAX_PROMPT_BYTES = 128 * 1024 - 1;
/** Tools that change files. A process with one of them lets the program change files too. */
const CHANGING = new Set(["Write", "Edit", "Bash"]);

/** Opens /dev/llm/cursor. Fails with UNAVAILABLE if the program is missing, before a run starts. */
export function cursorFile(context: OpenContext): CliFile {
  const command = commandOf(context);
  locate(context, command);
  return new CliFile(FACTS, async (request, signal) => {
    const path = locate(context, command);
    const key = await keyOf(context, { required: true });
    const run = new CliRun(context, signal, new Stream((text) => context.progress(text)), () => undefined);
    return { events: await run.start(program(path, request, key)), end: () => run.end() };
  });
}

function locate({ env }: OpenContext, command: string | undefined): string {
  const path = command ?? findBinary(env);
  if (path !== undefined && isFile(path)) return path;
  throw notFound();
}

/** Finds the program on the PATH by either of its names, then where its installer puts it. */
export function findBinary(env: Readonly<Record<string, string | undefined>>): string | undefined {
  return findProgram(env, ["cursor-agent", "agent"], [".local/bin/cursor-agent", ".local/bin/agent"]);
}

function program(path: string, request: LLMRequest, key: string): Program {
  // A project's text in the instructions must not end them.
  const instructions = request.system_prompt.replace(/\[(?=\s*(?:end of )?system instructions)/gi, "(");
  const prompt = `[System Instructions]\n${instructions}\n[End of System Instructions]\n\n${promptOf(request)}`;
  if (Buffer.byteLength(prompt) > MAX_PROMPT_BYTES) throw tooLong(prompt);
  const changes = request.tools?.some(({ name }) => CHANGING.has(name)) === true;
  return {
    argv: [
      path,
      ...["--print", "--output-format", "stream-json"],
      ...["--model", request.model],
      // Without this flag the program changes no file.
      ...(changes ? ["--force"] : []),
      prompt,
    ],
    env: { CURSOR_API_KEY: key },
  };
}

function tooLong(prompt: string): SyscallError {
  const message = `The Cursor CLI takes a prompt of at most ${MAX_PROMPT_BYTES} bytes; the conversation has ${Buffer.byteLength(prompt)}`;
  return new SyscallError("INVALID", message, { retryable: false, tooLong: true });
}

function notFound(): SyscallError {
  const message =
    "The program `cursor-agent` (or `agent`) is neither on the PATH nor in ~/.local/bin. Install the Cursor CLI, or name it as extra.command in the provider's entry";
  return new SyscallError("UNAVAILABLE", message, { retryable: false });
}

/** Reads what `agent --print --output-format stream-json` prints (cursor.com/docs/cli/reference/output-format). */
class Stream implements CliStream {
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
    .object({ inputTokens: z.number(), outputTokens: z.number(), cacheReadTokens: z.number().default(0) })
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
