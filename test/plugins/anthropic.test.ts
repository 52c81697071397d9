import { describe, expect, test } from "bun:test";
import anthropic from "../../plugins/anthropic.ts";
import { describePlugin } from "../support/conformance/plugin.ts";
import { failure } from "../support/failure.ts";
import { ask, openModel } from "../support/model-server/device.ts";
import { modelCases } from "../support/model-server/plugin-cases.ts";
import { ModelServer } from "../support/model-server/server.ts";

const DEVICE = "/dev/llm/anthropic";

describePlugin("anthropic", () => import("../../plugins/anthropic.ts"), modelCases([DEVICE], ""));

describe("a request to Anthropic", () => {
  test("has the key, the version, the limit, the tools and the entry's other fields", async () => {
    await using server = await ModelServer.start([{ text: "ok" }]);
    const file = await openModel(anthropic, DEVICE, {
      base_url: `${server.url}/`,
      extra: { metadata: { userId: "u1" } },
    });
    await ask(file, { stream: true, max_output: 500 });
    const [sent] = server.requests;
    expect(sent?.headers.get("x-api-key")).toBe("test-key");
    expect(sent?.headers.get("anthropic-version")).toBeString();
    expect(sent?.body).toMatchObject({
      model: "scripted",
      max_tokens: 500,
      tools: [{ name: "Bash", input_schema: { required: ["command"] } }],
      metadata: { user_id: "u1" },
    });
  });

  test("a system message in the middle of the conversation can't be ended by its own text", async () => {
    await using server = await ModelServer.start([{ text: "ok" }]);
    const file = await openModel(anthropic, DEVICE, { base_url: server.url });
    const user = { role: "user", content: "fix it" } as const;
    const system = { role: "system", content: "a </system> < /SYSTEM> <systems>" } as const;
    await ask(file, { messages: [user, { role: "assistant", content: "so" }, system] });
    expect(server.requests[0]?.text).toContain(
      JSON.stringify("<system>\na &lt;/system> &lt; /SYSTEM> <systems>\n</system>"),
    );
  });

  test("marks the beginning of the next request for the cache", async () => {
    await using server = await ModelServer.start([{ text: "ok" }]);
    const file = await openModel(anthropic, DEVICE, { base_url: server.url });
    const call = (id: string) => [
      { role: "assistant" as const, content: "", tool_calls: [{ id, name: "Bash", input: {} }] },
      { role: "tool" as const, tool_call_id: id, content: `result ${id}` },
    ];
    await ask(file, {
      messages: [{ role: "user", content: "fix it" }, ...call("c1"), ...call("c2"), ...call("c3")],
    });
    const marked = marks(server.requests[0]?.body);
    expect(marked).toEqual(["You are careful.", "result c2", "result c3"]);
  });
});

test("an exhausted quota window is reported with its reset", async () => {
  const headers = {
    "anthropic-ratelimit-requests-remaining": "12",
    "anthropic-ratelimit-requests-reset": "2026-01-01T09:00:00Z",
    "anthropic-ratelimit-tokens-remaining": "0",
    "anthropic-ratelimit-tokens-reset": "2026-01-01T00:05:00Z",
  };
  await using server = await ModelServer.start([{ fault: { kind: "status", status: 429, headers } }]);
  const file = await openModel(anthropic, DEVICE, { base_url: server.url });
  expect(await failure(ask(file))).toMatchObject({
    code: "EXHAUSTED",
    resetAtMs: Date.UTC(2026, 0, 1, 0, 5),
    retryAfterMs: undefined,
  });
});

test("without a key no request is made", async () => {
  await using server = await ModelServer.start([{ text: "ok" }]);
  const file = await openModel(anthropic, DEVICE, { base_url: server.url, key: null });
  expect(await failure(ask(file))).toMatchObject({ code: "UNAVAILABLE", retryable: false });
  expect(server.requests).toEqual([]);
});

test("it is found by its key", async () => {
  const { provider } = anthropic.devices[DEVICE];
  expect(await provider.detect({ ANTHROPIC_API_KEY: "k" })).toEqual({ model: expect.any(String) });
  expect(await provider.detect({})).toBeNull();
});

/** The texts that carry a cache mark, in order. */
function marks(body: unknown): string[] {
  const found: string[] = [];
  JSON.stringify(body, (_key, value) => {
    if (typeof value === "object" && value !== null && "cache_control" in value)
      found.push(value.text ?? value.content);
    return value;
  });
  return found.sort((a, b) => Number(b.startsWith("You")) - Number(a.startsWith("You")));
}
