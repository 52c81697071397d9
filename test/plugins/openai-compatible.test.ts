import { describe, expect, test } from "bun:test";
import compatible from "../../plugins/openai-compatible.ts";
import { describePlugin } from "../support/conformance/plugin.ts";
import { failure } from "../support/failure.ts";
import { ask, openModel } from "../support/model-server/device.ts";
import { modelCases } from "../support/model-server/plugin-cases.ts";
import { ModelServer } from "../support/model-server/server.ts";

const DEVICE = "/dev/llm/openai-compatible";

describePlugin(
  "openai-compatible",
  () => import("../../plugins/openai-compatible.ts"),
  modelCases([DEVICE], "/v1"),
);

test("a request has the entry's fields, and no key when there is none", async () => {
  await using server = await ModelServer.start([{ text: "ok" }, { text: "ok" }]);
  for (const key of [null, "sk-or"]) {
    const entry = { base_url: server.openaiUrl, extra: { provider: { sort: "price" } }, key };
    const file = await openModel(compatible, DEVICE, entry);
    expect((await ask(file, { stream: true, max_output: 500 })).answer.content).toBe("ok");
    await file.close();
  }
  const [without, withKey] = server.requests;
  expect(without?.headers.get("authorization")).toBeNull();
  expect(withKey?.headers.get("authorization")).toBe("Bearer sk-or");
  expect(without?.body).toMatchObject({
    model: "scripted",
    max_tokens: 500,
    provider: { sort: "price" },
    stream_options: { include_usage: true },
  });
});

test("requests at once through one server and model each have their own key", async () => {
  const keys = ["", "sk-1", "sk-2", "sk-3", "sk-4"];
  await using server = await ModelServer.start(keys.flatMap(() => [{ text: "ok" }, { text: "ok" }]));
  const entry = { base_url: server.openaiUrl };
  await Promise.all(
    keys.map(async (key) => {
      const file = await openModel(compatible, DEVICE, { ...entry, key: key || null });
      for (const stream of [true, false]) await ask(file, { stream, effort: undefined });
      await file.close();
    }),
  );
  const sent = server.requests.map(({ headers }) => headers.get("authorization") ?? "Bearer ");
  expect(sent.toSorted()).toEqual(keys.flatMap((key) => [`Bearer ${key}`, `Bearer ${key}`]).toSorted());
});

describe("OpenRouter's own fields", () => {
  const asked = async (response: () => Response) => {
    const server = Bun.serve({ port: 0, hostname: "127.0.0.1", fetch: response });
    try {
      const file = await openModel(compatible, DEVICE, { base_url: `http://127.0.0.1:${server.port}/v1` });
      return await ask(file, { stream: true });
    } finally {
      await server.stop(true);
    }
  };
  const failed = (response: () => Response) => failure(asked(response));
  const sse = (...chunks: object[]) =>
    new Response(
      [": OPENROUTER PROCESSING", ...chunks.map((chunk) => `data: ${JSON.stringify(chunk)}`), ""].join(
        "\n\n",
      ),
      { headers: { "content-type": "text/event-stream" } },
    );
  const choice = (content: string, finish_reason: string | null) => ({
    choices: [{ index: 0, delta: { role: "assistant", content }, finish_reason }],
  });

  test("the cost of an answer is reported with its tokens", async () => {
    const usage = { prompt_tokens: 10, completion_tokens: 5, total_tokens: 15, cost: 0.00042 };
    const { answer } = await asked(() => sse(choice("so", "stop"), { choices: [], usage }));
    expect(answer.usage).toEqual({ input_tokens: 10, output_tokens: 5, cached_tokens: 0, cost_usd: 0.00042 });
  });

  test("an answer that ends with length, then with stop, is cut", async () => {
    for (const word of ["length", "content_filter"]) {
      const { answer } = await asked(() => sse(choice("half of", word), choice("", "stop")));
      expect([word, answer.stop_word]).toEqual([word, word]);
      expect(answer.stop_reason).not.toBe("end_turn");
    }
    const { answer } = await asked(() => sse(choice("all", "stop"), choice("", "stop")));
    expect(answer.stop_reason).toBe("end_turn");
  });

  test("an account without credit is EXHAUSTED", async () => {
    const error = { code: 402, message: "Insufficient credits", metadata: { provider_name: "x" } };
    const thrown = await failed(() => Response.json({ error }, { status: 402 }));
    expect(thrown).toMatchObject({ code: "EXHAUSTED", retryable: false });
    expect(thrown.message).toContain("Insufficient credits");
  });

  test("an error with the last piece of a stream fails the answer", async () => {
    const error = { code: 502, message: "Provider disconnected" };
    const thrown = await failed(() => sse(choice("Half of", null), { error, ...choice("", "error") }));
    expect(thrown).toMatchObject({ code: "UNAVAILABLE", retryable: true });
    expect(thrown.message).toContain("Provider disconnected");
  });

  test("the stop reason error fails the answer", async () => {
    const thrown = await failed(() => sse(choice("Half of", null), choice("", "error")));
    expect(thrown).toMatchObject({ code: "UNAVAILABLE", retryable: true });
  });
});

test("without an address it cannot be opened, and no model is found for it", async () => {
  const error = await failure(openModel(compatible, DEVICE, {}));
  expect(error).toMatchObject({ code: "INVALID" });
  expect(error.message).toContain("OPENAI_BASE_URL");
  expect(await compatible.devices[DEVICE].provider.detect()).toBeNull();
});
