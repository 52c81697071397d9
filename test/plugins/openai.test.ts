import { describe, expect, test } from "bun:test";
import openai from "../../plugins/openai.ts";
import { describePlugin } from "../support/conformance/plugin.ts";
import { failure } from "../support/failure.ts";
import { ask, openModel, request } from "../support/model-server/device.ts";
import { modelCases } from "../support/model-server/plugin-cases.ts";
import { ModelServer } from "../support/model-server/server.ts";

describePlugin("openai", () => import("../../plugins/openai.ts"), modelCases(["/dev/llm/openai"], "/v1"));

describe("a request to a server instead of OpenAI", () => {
  test("has the prompt, the tools, the limit, the key and the entry's other fields", async () => {
    await using server = await ModelServer.start([{ text: "ok" }]);
    const file = await openModel(openai, "/dev/llm/openai", {
      base_url: `${server.openaiUrl}/`,
      extra: { reasoningEffort: "low", top_k: 4 },
    });
    await ask(file, { stream: true, max_output: 500 });
    const [sent] = server.requests;
    expect(sent?.headers.get("authorization")).toBe("Bearer test-key");
    expect(sent?.body).toMatchObject({
      model: "scripted",
      messages: [
        { role: "system", content: "You are careful." },
        { role: "user", content: "fix it" },
      ],
      tools: [{ type: "function", function: { name: "Bash", parameters: { required: ["command"] } } }],
      max_tokens: 500,
      reasoning_effort: "low",
      top_k: 4,
      stream: true,
      stream_options: { include_usage: true },
    });
  });

  test("has no key when there is none", async () => {
    await using server = await ModelServer.start([{ text: "ok" }]);
    const file = await openModel(openai, "/dev/llm/openai", { base_url: server.openaiUrl, key: null });
    expect((await ask(file)).answer.content).toBe("ok");
    expect(server.requests.map((sent) => sent.headers.get("authorization"))).toEqual([null]);
  });

  test("has the intent when the conversation is empty", async () => {
    await using server = await ModelServer.start([{ text: "ok" }]);
    const file = await openModel(openai, "/dev/llm/openai", { base_url: server.openaiUrl });
    await ask(file, { messages: [] });
    expect(server.requests[0]?.body.messages?.at(-1)).toMatchObject({ role: "user", content: "fix it" });
  });
});

test("a request to OpenAI asks it to store nothing", async () => {
  await using server = await ModelServer.start([{ text: "ok" }]);
  const file = await openModel(openai, "/dev/llm/openai", {
    base_url: server.openaiUrl,
    extra: { api: "responses" },
  });
  await ask(file, { stream: true });
  expect(server.requests[0]?.body).toMatchObject({ store: false });
});

test("a request to OpenAI without a key fails and is not retried", async () => {
  const file = await openModel(openai, "/dev/llm/openai", { key: null });
  expect(await failure(ask(file))).toMatchObject({ code: "UNAVAILABLE", retryable: false });
});

test("a long tool call gives heartbeats before it is complete", async () => {
  await using server = await ModelServer.start([
    { tool_calls: [{ name: "Bash", input: { command: "x".repeat(9000) } }] },
  ]);
  const file = await openModel(openai, "/dev/llm/openai", { base_url: server.openaiUrl });
  const { events } = await ask(file, { stream: true });
  expect(events[0]).toEqual({ type: "reasoning_delta", text: "" });
  expect(events.map((event) => event.type).slice(-3)).toEqual(["usage", "tool_call", "stop"]);
});

test("an event longer than one read continues in the next", async () => {
  await using server = await ModelServer.start([
    { tool_calls: [{ name: "Bash", input: { command: "x".repeat(9000) } }] },
  ]);
  const file = await openModel(openai, "/dev/llm/openai", { base_url: server.openaiUrl });
  const { signal } = new AbortController();
  await file.write(JSON.stringify(request), signal);
  const pieces: string[] = [];
  for (
    let piece = String(await file.read(1000, signal));
    piece !== "";
    piece = String(await file.read(1000, signal))
  )
    pieces.push(piece);
  expect(pieces.slice(0, -1).map((piece) => piece.length)).toEqual(pieces.slice(0, -1).map(() => 1000));
  expect(JSON.parse(pieces.join("")).tool_calls[0].input.command).toHaveLength(9000);
});

describe("a wrong entry or request is INVALID, with what was expected", () => {
  const opened = async (entry: Parameters<typeof openModel>[2]) =>
    (await failure(openModel(openai, "/dev/llm/openai", entry))).message;

  test("an entry", async () => {
    expect(await opened({ base_url: "ftp://x" })).toContain("base_url");
    expect(await opened({ base_url: "http://x/v1", extra: { api: "grpc" } })).toContain(
      "responses, chat, compatible",
    );
  });

  test("a request", async () => {
    const file = await openModel(openai, "/dev/llm/openai", { base_url: "http://127.0.0.1:1/v1" });
    const { signal } = new AbortController();
    const orphan = { ...request, messages: [{ role: "tool", content: "x", tool_call_id: "c9" }] };
    for (const [data, says] of [
      ["not json", "JSON"],
      ['{"model":"m","messages":"hi"}', "messages"],
      [JSON.stringify(orphan), '"c9"'],
    ] as const) {
      const error = await failure(file.write(data, signal));
      expect(error).toMatchObject({ code: "INVALID" });
      expect(error.message).toContain(says);
    }
    const unread = await openModel(openai, "/dev/llm/openai", { base_url: "http://127.0.0.1:1/v1" });
    expect(await failure(unread.read(10, signal))).toMatchObject({ code: "INVALID" });
  });
});

test("it is detected by its key, and its stat names its abilities", async () => {
  const { provider } = openai.devices["/dev/llm/openai"];
  expect(await provider.detect({ OPENAI_API_KEY: "k" })).toEqual({ model: expect.any(String) });
  expect(await provider.detect({ OPENAI_API_KEY: "" })).toBeNull();
  const file = await openModel(openai, "/dev/llm/openai", {});
  expect(await file.stat()).toMatchObject({
    name: "openai",
    devicePath: "/dev/llm/openai",
    models: [expect.any(String)],
    streams: true,
    tools: true,
    confined: true,
  });
});
