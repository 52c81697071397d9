import { describe, expect, test } from "bun:test";
import { type LLMAnswer, SyscallError, type VFSFile } from "../../src/plugin/index.ts";
import { TestGate } from "../kernel/llm/test-gate.ts";
import { HTTP_DRIVERS, type HttpDriver, openDriver } from "../support/model-server/conformance/driver.ts";
import { request } from "../support/model-server/device.ts";
import { ModelServer, type Turn } from "../support/model-server/server.ts";

/** How an answer ended, as the kernel sees it: an end, a partial answer with its word, or an error. */
const ENDS = ["whole", "cut", "refused", "other", "pauses", "broken off"] as const;
type End = (typeof ENDS)[number];

/** The meaning of a stop reason, after text. */
const WORDS: Record<End, (string | null)[]> = {
  whole: ["stop", "end_turn", "stop_sequence", "STOP", "eos", "eos_token"],
  cut: [
    ...["length", "max_tokens", "max_output_tokens", "MAX_TOKENS"],
    ...["model_length", "model_context_window_exceeded"],
  ],
  refused: [
    ...["content_filter", "refusal", "sensitive", "SAFETY", "RECITATION", "BLOCKLIST"],
    ...["PROHIBITED_CONTENT", "SPII", "IMAGE_SAFETY"],
  ],
  pauses: ["pause_turn"],
  "broken off": [
    ...[null, "", "error", "abort", "network_error", "insufficient_system_resource", "OTHER"],
    ...["MALFORMED_FUNCTION_CALL", "MALFORMED_RESPONSE", "UNEXPECTED_TOOL_CALL", "FINISH_REASON_UNSPECIFIED"],
  ],
  other: [
    ...["incomplete", "compaction", "LANGUAGE", "CONTINUATION", "interrupted", "done", "Stop", "END_TURN"],
    ...["stop ", "constructor", "__proto__", "toString", "an unknown word"],
  ],
};

const CALL = { tool_calls: [{ id: "c", name: "Bash", input: { command: "ls" } }] };

for (const driver of HTTP_DRIVERS)
  for (const stream of [true, false])
    describe(`${driver.title}, ${stream ? "streamed" : "in one piece"}: an answer that ends with`, () => {
      const ends = ENDS.flatMap((end) => WORDS[end].map((word) => ({ end, word })));
      for (const { end, word } of ends.filter(({ word }) => isSaid(driver, word)))
        test(`${JSON.stringify(word)}: ${end}`, async () => {
          const [text, calls, both, empty] = await Promise.all([
            asked(driver, { text: "Half of it", stop_word: word }, stream),
            asked(driver, { ...CALL, stop_word: word }, stream),
            asked(driver, { text: "Look:", ...CALL, stop_word: word }, stream),
            asked(driver, { stop_word: word }, stream),
          ]);
          expect(endOf(text)).toBe(end);
          // No call is made of an incomplete answer.
          for (const one of [calls, both]) expect(callsOf(one)).toEqual(CALLS[end]);
          expect(endOf(empty)).not.toBe("whole");
          expect(empty).toBeInstanceOf(SyscallError);
          if (end === "whole" || end === "pauses" || !word) return;
          const named = text instanceof SyscallError ? text.message : text.stop_word;
          expect(named).toContain(word);
        });

      test("the stop reason of calls: the calls are made, and without a call the request is retried", async () => {
        const word = WORD_OF_CALLS[driver.title];
        if (word === undefined) return;
        expect(callsOf(await asked(driver, { ...CALL, stop_word: word }, stream))).toBe("made");
        const none = await asked(driver, { text: "I call", stop_word: word }, stream);
        expect(none).toMatchObject({ code: "DRIVER", retryable: true });
      });

      test("an endless stop reason: it is truncated", async () => {
        if (driver.title === "openai, Responses" && !stream) return;
        const answer = await asked(driver, { text: "so", stop_word: "w".repeat(100_000) }, stream);
        expect(answer).toMatchObject({ stop_reason: "other", stop_word: "w".repeat(80) });
      });
    });

/** The outcome of the calls that come with the stop reason. */
const CALLS = {
  whole: "made",
  pauses: "made",
  cut: "the last one is not trusted",
  refused: "none",
  other: "none",
  "broken off": "an error",
} as const;

const WORD_OF_CALLS: Record<string, string> = {
  anthropic: "tool_use",
  "openai, chat": "tool_calls",
  "openai-compatible": "tool_calls",
};

/** The Responses API names a reason only for incomplete answers. */
function isSaid(driver: HttpDriver, word: string | null): boolean {
  if (driver.title !== "openai, Responses") return true;
  return word !== null && word !== "" && !WORDS.whole.includes(word) && word !== "pause_turn";
}

/** The answer as the kernel takes it, or its error. */
async function asked(driver: HttpDriver, turn: Turn, stream: boolean): Promise<LLMAnswer | SyscallError> {
  await using server = await ModelServer.start([turn]);
  const file = await openDriver(driver, server.url);
  try {
    return await gated(file, stream);
  } catch (error) {
    if (error instanceof SyscallError) return error;
    throw error;
  } finally {
    await file.close();
  }
}

function gated(file: VFSFile, stream: boolean): Promise<LLMAnswer> {
  const gate = new TestGate();
  const device = {
    write: async (data: string, signal: AbortSignal) => void (await file.write(data, signal)),
    read: (max: number, signal: AbortSignal) => file.read(max, signal),
  };
  return gate.call("k", device, { ...request, stream }, { retries: 0 });
}

function endOf(answer: LLMAnswer | SyscallError): End | "empty" {
  if (answer instanceof SyscallError) return answer.code === "UNAVAILABLE" ? "broken off" : "empty";
  const ends = {
    end_turn: "whole",
    tool_calls: "whole",
    max_tokens: "cut",
    refusal: "refused",
    other: "other",
    paused: "pauses",
    unknown: "broken off",
  } as const;
  return ends[answer.stop_reason];
}

function callsOf(answer: LLMAnswer | SyscallError): string {
  if (answer instanceof SyscallError) return answer.code === "UNAVAILABLE" ? "an error" : "none";
  const [call] = answer.tool_calls;
  if (call === undefined) return "none";
  return call.invalid === undefined ? "made" : "the last one is not trusted";
}
