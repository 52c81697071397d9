import { describe, expect, test } from "bun:test";
import type { LLMEvent, LlmRequest, Services } from "../../../src/plugin/index.ts";
import { calls, KernelHarness, type Model, says, toolDevice } from "../../support/kernel.ts";
import { until } from "../../support/until.ts";

/** A tool whose driver asks the model what its input says. */
const ASK = toolDevice("Ask", async ({ op: _, times = 1, ...asks }, _signal, context) => {
  const request: LlmRequest = JSON.parse(JSON.stringify(asks));
  const asked = Array.from({ length: Number(times) }, () => context.llm?.ask(request));
  return JSON.stringify((await Promise.all(asked)).at(-1) ?? null);
});
const NEEDS: Record<string, (keyof Services)[]> = { "/dev/ask": ["llm"] };
const COUNTED = { input_tokens: 100, output_tokens: 7, cached_tokens: 0 };

/** The run's own answers, and what a driver's requests get. */
function model(
  input: Record<string, unknown>,
  answer: (prompt: string) => LLMEvent[] | Promise<LLMEvent[]>,
): Model {
  return (request) => {
    if (request.turn === null) return answer(request.messages[0]?.content ?? "");
    return request.turn === 0 ? calls(["Ask", input]) : says("done");
  };
}

function text(said: string, usage = COUNTED): LLMEvent[] {
  return [
    { type: "text_delta", text: said },
    { type: "usage", usage },
    { type: "stop", reason: "end_turn" },
  ];
}

describe("the service llm", () => {
  test("makes one request to the run's model, which is charged to the run and in the record of its call", async () => {
    const input = { prompt: "sum it up", system: "Be brief.", max_output: 50 };
    await using h = new KernelHarness({
      model: model(input, (prompt) => text(`about: ${prompt}`)),
      devices: { "/dev/ask": ASK },
      needs: NEEDS,
    });
    const { info, events } = await h.run("go", { context_budget: 100_000 });
    const own = h.requests.find(({ turn }) => turn === null);
    expect(own).toMatchObject({ system_prompt: "Be brief.", max_output: 50, model: "m" });
    expect(own?.tools).toBeUndefined();
    const [first] = (await h.runs.steps(info.uuid, { after: 0, limit: 1 })).records;
    const [call] = first?.tool_calls ?? [];
    expect(JSON.parse(call?.result ?? "")).toEqual({ text: "about: sum it up", usage: COUNTED });
    expect(call?.model_use).toEqual({ requests: 1, usage: COUNTED });
    expect(first?.usage.input_tokens).toBe(10);
    expect(info).toMatchObject({ exit_code: 0, steps: 2, tokens_used: 107 + 2 * 15 });
    expect(info.usage.input_tokens).toBe(120);
    // It is no answer of the run.
    expect(JSON.stringify(events)).not.toContain('"text_delta","step":1,"text":"about');
  });

  test("adds up several requests of one call, and keeps the count when the run is resumed", async () => {
    const input = { prompt: "twice", times: 2 };
    await using h = new KernelHarness({
      model: model(input, () => text("x")),
      devices: { "/dev/ask": ASK },
      needs: NEEDS,
    });
    const { info } = await h.run("go");
    const [first] = (await h.runs.steps(info.uuid, { after: 0, limit: 1 })).records;
    const model_use = { requests: 2, usage: { ...COUNTED, input_tokens: 200, output_tokens: 14 } };
    expect(first?.tool_calls[0]?.model_use).toEqual(model_use);
    expect((await h.resumed(info.uuid, { input: "more" })).info.usage.input_tokens).toBe(230);
  });

  test("fails with EXHAUSTED when the budget does not cover it, and sends nothing", async () => {
    await using h = new KernelHarness({
      model: model({ prompt: "x".repeat(900_000) }, () => text("x")),
      devices: { "/dev/ask": ASK },
      needs: NEEDS,
    });
    const { info } = await h.run("go", { context_budget: 3_000 });
    const [first] = (await h.runs.steps(info.uuid, { after: 0, limit: 1 })).records;
    expect(first?.tool_calls[0]).toMatchObject({ error_code: "EXHAUSTED" });
    expect(h.requests.some(({ turn }) => turn === null)).toBe(false);
  });

  test.each<[string, Record<string, unknown>, LLMEvent[], string]>([
    ["INVALID without a prompt", { prompt: " " }, text("x"), "Error INVALID"],
    ["INVALID for a wrong max_output", { prompt: "a", max_output: 0 }, text("x"), "Error INVALID"],
    [
      "DRIVER for an answer that does not fit",
      { prompt: "a", output_schema: { type: "array" } },
      text("{}"),
      "Error DRIVER",
    ],
    ["DRIVER for an answer that calls a tool", { prompt: "a" }, calls(["Ask", {}]), "Error DRIVER"],
  ])("fails with %s", async (_title, input, answer, error) => {
    await using h = new KernelHarness({
      model: model(input, () => answer),
      devices: { "/dev/ask": ASK },
      needs: NEEDS,
    });
    const { info } = await h.run("go", { context_budget: 3_000 });
    expect(h.requests.at(-1)?.messages.at(-1)?.content).toStartWith(error);
    expect(info.exit_code).toBe(0);
  });

  test("returns the document of an answer in a code fence that fits the schema", async () => {
    const input = { prompt: "a", output_schema: { type: "object", properties: { n: { type: "integer" } } } };
    await using h = new KernelHarness({
      model: model(input, () => text('```json\n{"n": 1}\n```')),
      devices: { "/dev/ask": ASK },
      needs: NEEDS,
    });
    await h.run("go");
    expect(JSON.parse(h.requests.at(-1)?.messages.at(-1)?.content ?? "").text).toBe('{"n": 1}');
    expect(h.requests[1]?.system_prompt).toContain("JSON Schema");
  });

  test("is not there for a plugin that does not need it, and ends with the run", async () => {
    await using bare = new KernelHarness({
      model: model({ prompt: "a" }, () => text("x")),
      devices: { "/dev/ask": ASK },
    });
    await bare.run("go");
    expect(bare.requests.at(-1)?.messages.at(-1)?.content).toBe("null");

    let asked = false;
    await using h = new KernelHarness({
      model: (request, signal) => {
        if (request.turn !== null) return calls(["Ask", { prompt: "a" }]);
        asked = true;
        return new Promise((_resolve, reject) =>
          signal.addEventListener("abort", () => reject(signal.reason), { once: true }),
        );
      },
      devices: { "/dev/ask": ASK },
      needs: NEEDS,
    });
    const pid = await h.spawn("go");
    await until(() => asked);
    h.kernel.processes.kill(pid, 2);
    expect((await h.follow(pid)).info.exit_code).toBe(137);
  });
});
