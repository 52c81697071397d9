import { resolve } from "node:path";
import { type LLMAnswer, type LLMEvent, type LLMRequest, SyscallError } from "rnix/plugin";
import type { Model } from "../_model/model-file.ts";
import { type Response, readScript } from "./script.ts";

/**
 * Answers with the script's next response. Which one that is depends on the request alone, on how many
 * answers the conversation holds, so that a resumed run goes on where it was.
 */
export class ScriptedModel implements Model {
  readonly #cwd: string;
  readonly #scripts = new Map<string, Response[]>();

  constructor(cwd: string) {
    this.#cwd = cwd;
  }

  async answer(request: LLMRequest, signal: AbortSignal): Promise<LLMAnswer> {
    const file = resolve(this.#cwd, request.model);
    const script = this.#scripts.get(file) ?? (await readScript(file, signal));
    this.#scripts.set(file, script);
    const turn = request.messages.filter((message) => message.role === "assistant").length;
    const response = script[turn];
    if (response === undefined) throw ranOut(file, script.length, turn);
    return answerOf(response, turn, request);
  }

  async stream(request: LLMRequest, signal: AbortSignal): Promise<AsyncIterable<LLMEvent>> {
    return events(await this.answer(request, signal));
  }
}

function answerOf(response: Response, turn: number, request: LLMRequest): LLMAnswer {
  const content = response.text ?? "";
  const calls = (response.tool_calls ?? []).map((call, n) => ({ id: `call_${turn + 1}_${n + 1}`, ...call }));
  const usage = {
    input_tokens: guess(request.system_prompt + request.messages.map((message) => message.content).join("")),
    output_tokens: guess(content + JSON.stringify(calls)),
    cached_tokens: 0,
    ...response.usage,
  };
  return {
    content,
    tool_calls: calls,
    stop_reason: response.stop_reason ?? (calls.length > 0 ? "tool_calls" : "end_turn"),
    usage,
    tokens_used: usage.input_tokens + usage.output_tokens,
  };
}

async function* events(answer: LLMAnswer): AsyncGenerator<LLMEvent> {
  for (const text of pieces(answer.content)) yield { type: "text_delta", text };
  for (const call of answer.tool_calls) yield { type: "tool_call", call };
  yield { type: "usage", usage: answer.usage };
  yield { type: "stop", reason: answer.stop_reason };
}

const PIECES = 4;

/** By code points, so that no piece ends within a character. */
function pieces(text: string): string[] {
  const points = [...text];
  const size = Math.max(1, Math.ceil(points.length / PIECES));
  const count = Math.ceil(points.length / size);
  return Array.from({ length: count }, (_, n) => points.slice(n * size, (n + 1) * size).join(""));
}

/** Where the script says no number: about four characters a token, the same on every machine. */
function guess(text: string): number {
  return Math.ceil(text.length / 4);
}

function ranOut(file: string, length: number, turn: number): SyscallError {
  return new SyscallError(
    "INVALID",
    `the script ${file} has ${length} responses and was asked for turn ${turn + 1}. Add a response, or end the run before it`,
    { retryable: false },
  );
}
