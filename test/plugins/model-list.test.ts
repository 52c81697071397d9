import { describe, expect, test } from "bun:test";
import anthropic from "../../plugins/anthropic.ts";
import google from "../../plugins/google.ts";
import openai from "../../plugins/openai.ts";
import compatible from "../../plugins/openai-compatible.ts";
import type { ModelListRequest, Plugin } from "../../src/plugin/index.ts";
import { failure } from "../support/failure.ts";
import { openModel } from "../support/model-server/device.ts";
import { ModelServer } from "../support/model-server/server.ts";

const REQUEST: ModelListRequest = { op: "models" };
const DRIVERS: [string, Plugin, (server: ModelServer) => string][] = [
  ["anthropic", anthropic, ({ url }) => url],
  ["openai", openai, ({ openaiUrl }) => openaiUrl],
  ["openai-compatible", compatible, ({ openaiUrl }) => openaiUrl],
  ["google", google, ({ url }) => url],
];

async function listed(plugin: Plugin, name: string, base_url: string, key = "test-key"): Promise<unknown> {
  const file = await openModel(plugin, `/dev/llm/${name}`, { base_url, key });
  const { signal } = new AbortController();
  await file.write(JSON.stringify(REQUEST), signal);
  const answer = await file.read(1_000_000, signal);
  expect(await file.read(1_000_000, signal)).toBe("");
  await file.close();
  return JSON.parse(String(answer));
}

/** A server that answers each request with this. */
function answering(status: number, body: unknown) {
  const server = Bun.serve({
    port: 0,
    hostname: "127.0.0.1",
    fetch: () => Response.json(body, { status }),
  });
  return { url: `http://127.0.0.1:${server.port}`, [Symbol.asyncDispose]: () => server.stop(true) };
}

describe.each(DRIVERS)("the models of %s", (name, plugin, urlOf) => {
  test("are those that the service lists for the key", async () => {
    await using server = await ModelServer.start({ turns: [], models: ["first", "second"], key: "test-key" });
    expect(await listed(plugin, name, urlOf(server))).toEqual({
      models: [{ id: "first" }, { id: "second" }],
    });
    expect(server.requests).toEqual([]);
  });

  test("with a refused key the failure is that of a model call", async () => {
    await using server = await ModelServer.start({ turns: [], key: "another" });
    expect(await failure(listed(plugin, name, urlOf(server)))).toMatchObject({
      code: "PERMISSION",
      retryable: false,
      message: expect.stringContaining("Incorrect API key provided"),
    });
  });

  test("a server without a list is NOT_FOUND", async () => {
    await using server = answering(404, { error: { message: "no such path" } });
    expect(await failure(listed(plugin, name, server.url))).toMatchObject({
      code: "NOT_FOUND",
      message: expect.stringContaining("no list of models"),
    });
    await using other = answering(200, { hello: "world" });
    expect(await failure(listed(plugin, name, other.url))).toMatchObject({ code: "NOT_FOUND" });
  });

  test("a server that can't be reached is UNAVAILABLE", async () => {
    expect(await failure(listed(plugin, name, "http://127.0.0.1:1"))).toMatchObject({
      code: "UNAVAILABLE",
      message: expect.stringContaining("ECONNREFUSED"),
    });
  });
});

test("what a service says of its models is kept: windows and prices", async () => {
  const router = {
    id: "a/model",
    context_length: 200_000,
    top_provider: { max_completion_tokens: 8000 },
    pricing: { prompt: "0.0000025", completion: "0.00001", input_cache_read: "0.00000025" },
  };
  const other = { id: "odd", context_length: "many", pricing: { prompt: "-1", completion: null } };
  await using server = answering(200, { data: [router, { id: "vllm", max_model_len: 32_768 }, other] });
  expect(await listed(compatible, "openai-compatible", server.url)).toEqual({
    models: [
      {
        id: "a/model",
        contextWindow: 200_000,
        maxOutput: 8000,
        price: { input: 2.5, cached: 0.25, output: 10 },
      },
      { id: "vllm", contextWindow: 32_768 },
      { id: "odd" },
    ],
  });
});

test("models of Google that answer no conversation are left out", async () => {
  const talks = { name: "models/gemini-x", inputTokenLimit: 1000, outputTokenLimit: 100 };
  await using server = answering(200, {
    models: [
      { ...talks, supportedGenerationMethods: ["generateContent"] },
      { name: "models/embedding-1", supportedGenerationMethods: ["embedContent"] },
    ],
  });
  expect(await listed(google, "google", server.url)).toEqual({
    models: [{ id: "gemini-x", contextWindow: 1000, maxOutput: 100 }],
  });
});
