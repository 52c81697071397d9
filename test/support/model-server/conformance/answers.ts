import { describe, expect, test } from "bun:test";
import type { ask } from "../device.ts";
import type { Turn } from "../server.ts";
import type { Findings } from "./findings.ts";

/** What an answer is made of, as far as a driver has to bring it over. */
export const ANSWERS = {
  whole: "text, tool calls side by side, usage, why it stopped",
  thoughts: "what the model thinks, apart from what it says",
  stops: "each reason to stop: done, tool calls, the output limit, a refusal",
  broken: "arguments that are no JSON object, handed on as what they are",
  empty: "an answer with nothing in it",
  many: "200 tool calls in one answer",
  line: "a single line of 2 MB",
} as const;

/** A driver that a test can have answer what it wants. */
export interface Answerer {
  title: string;
  thinks: boolean;
  answered(turn: Turn, stream: boolean): ReturnType<typeof ask>;
}

/** Every answer of `ANSWERS`, as a stream and in one piece. */
export function describeAnswers(driver: Answerer, findings: Findings): void {
  for (const stream of [true, false])
    describe(`an answer, ${stream ? "streamed" : "in one piece"}`, () => answers(driver, findings, stream));
}

function answers(driver: Answerer, findings: Findings, stream: boolean): void {
  const holds = (row: string, work: () => Promise<void>) =>
    test(row, async () => {
      await work();
      findings.note(row, driver.title, stream ? "streamed" : "in one piece");
    });
  const answered = (turn: Turn) => driver.answered(turn, stream);

  holds(ANSWERS.whole, async () => {
    const input_tokens = 100;
    const { answer, events } = await answered({
      text: "Let me look at that",
      tool_calls: [
        { id: "call_a", name: "Bash", input: { command: "ls" } },
        { id: "call_b", name: "Bash", input: { command: "pwd" } },
      ],
      usage: { input_tokens, output_tokens: 20, cached_tokens: 60 },
    });
    expect(answer).toMatchObject({
      content: "Let me look at that",
      tool_calls: [
        { id: "call_a", name: "Bash", input: { command: "ls" } },
        { id: "call_b", name: "Bash", input: { command: "pwd" } },
      ],
      stop_reason: "tool_calls",
      usage: { input_tokens, output_tokens: 20, cached_tokens: 60 },
      tokens_used: 120,
    });
    if (!stream) return;
    expect(events.filter((event) => event.type === "text_delta").length).toBeGreaterThan(1);
    expect(events.at(-1)).toEqual({ type: "stop", reason: "tool_calls" });
  });

  if (driver.thinks)
    holds(ANSWERS.thoughts, async () => {
      const { answer } = await answered({ reasoning: "hm, 42", text: "It is 42" });
      expect(answer).toMatchObject({ reasoning: "hm, 42", content: "It is 42" });
    });
  else findings.without(ANSWERS.thoughts, driver.title);

  holds(ANSWERS.stops, async () => {
    for (const stop of ["end_turn", "max_tokens", "refusal"] as const)
      expect((await answered({ text: "so", stop })).answer.stop_reason).toBe(stop);
  });

  holds(ANSWERS.broken, async () => {
    const deep = `{"command": ${"[".repeat(600)}${"]".repeat(600)}}`;
    for (const rawArguments of ['{"command": "ls', "[1,2]", '"ls"', deep]) {
      const { answer } = await answered({ tool_calls: [{ name: "Bash", rawArguments }] });
      const [call] = answer.tool_calls;
      expect(call).toMatchObject({ name: "Bash", input: {} });
      expect(call?.invalid?.reason).toBeString();
      expect(call?.invalid?.text).toContain(rawArguments.slice(1, 3));
    }
  });

  holds(ANSWERS.empty, async () => {
    expect((await answered({})).answer).toMatchObject({ content: "", tool_calls: [] });
  });

  holds(ANSWERS.many, async () => {
    const wanted = Array.from({ length: 200 }, (_, n) => ({ id: `c${n}`, name: "Bash", input: { n } }));
    const { answer } = await answered({ tool_calls: wanted });
    expect(answer.tool_calls.map(({ id, name, input }) => ({ id, name, input }))).toEqual(wanted);
  });

  holds(ANSWERS.line, async () => {
    const text = "0123456789abcdef".repeat(2 ** 17);
    const began = performance.now();
    expect((await answered({ text, chunks: 1 })).answer.content === text).toBe(true);
    // Not in the square of its length: that would be minutes.
    expect(performance.now() - began).toBeLessThan(20_000);
  });
}
