import { describe, expect, test } from "bun:test";
import google from "../../plugins/google.ts";
import { describePlugin } from "../support/conformance/plugin.ts";
import { failure } from "../support/failure.ts";
import { ask, openModel } from "../support/model-server/device.ts";
import { modelCases } from "../support/model-server/plugin-cases.ts";
import { type Fault, ModelServer } from "../support/model-server/server.ts";

const DEVICE = "/dev/llm/google";

describePlugin("google", () => import("../../plugins/google.ts"), modelCases([DEVICE], ""));

describe("a request to Google", () => {
  test("has the key in its header, the instructions, the tools, the limit and the entry's other fields", async () => {
    await using server = await ModelServer.start([{ text: "ok" }]);
    const file = await openModel(google, DEVICE, {
      base_url: `${server.url}/`,
      extra: { thinkingConfig: { includeThoughts: true } },
    });
    await ask(file, { stream: true, max_output: 500 });
    const [sent] = server.requests;
    expect(sent?.headers.get("x-goog-api-key")).toBe("test-key");
    expect(sent?.path).toBe("/v1beta/models/scripted:streamGenerateContent");
    expect(sent?.body).toMatchObject({
      systemInstruction: { parts: [{ text: "You are careful." }] },
      contents: [{ role: "user", parts: [{ text: "fix it" }] }],
      tools: [{ functionDeclarations: [{ name: "Bash", parametersJsonSchema: { required: ["command"] } }] }],
      generationConfig: { maxOutputTokens: 500, thinkingConfig: { includeThoughts: true } },
    });
  });

  test("requests thoughts when an effort is given, unless the entry says otherwise", async () => {
    await using server = await ModelServer.start([{ text: "a" }, { text: "b" }]);
    const entries = [{}, { thinkingConfig: { includeThoughts: false } }];
    for (const extra of entries) {
      const file = await openModel(google, DEVICE, { base_url: server.url, extra });
      await ask(file, { effort: "high" });
      await file.close();
    }
    expect(server.requests.map(({ body }) => body.generationConfig)).toMatchObject([
      { thinkingConfig: { includeThoughts: true, thinkingBudget: expect.any(Number) } },
      { thinkingConfig: { includeThoughts: false, thinkingBudget: expect.any(Number) } },
    ]);
  });

  test("goes to the same address whether the entry's address names the version or not", async () => {
    await using server = await ModelServer.start([{ text: "a" }, { text: "b" }]);
    for (const end of ["", "/v1beta/"]) {
      const file = await openModel(google, DEVICE, { base_url: server.url + end });
      await ask(file);
    }
    expect(server.requests.map(({ path }) => path)).toEqual([
      "/v1beta/models/scripted:generateContent",
      "/v1beta/models/scripted:generateContent",
    ]);
  });
});

describe("Google's own errors", () => {
  const failed = async (fault: Fault, stream = true) => {
    await using server = await ModelServer.start([{ fault }]);
    const file = await openModel(google, DEVICE, { base_url: server.url });
    return await failure(ask(file, { stream }));
  };
  const refusal = (status: number, name: string, details: object[]): Fault => ({
    kind: "status",
    status,
    body: { error: { code: status, message: "no", status: name, details } },
  });
  const type = (name: string) => `type.googleapis.com/google.rpc.${name}`;

  test("a wrong key is a 400 whose details say so", async () => {
    const details = [{ "@type": type("ErrorInfo"), reason: "API_KEY_INVALID", domain: "googleapis.com" }];
    const error = await failed(refusal(400, "INVALID_ARGUMENT", details));
    expect(error).toMatchObject({ code: "PERMISSION", retryable: false });
    expect(error.message).toContain("GEMINI_API_KEY");
  });

  test("a rate limit has its wait in the details", async () => {
    const details = [{ "@type": type("QuotaFailure") }, { "@type": type("RetryInfo"), retryDelay: "34.5s" }];
    for (const stream of [true, false])
      expect(await failed(refusal(429, "RESOURCE_EXHAUSTED", details), stream)).toMatchObject({
        code: "EXHAUSTED",
        retryAfterMs: 34_500,
      });
  });

  test.each(["MALFORMED_FUNCTION_CALL", "OTHER", "UNEXPECTED_TOOL_CALL"])(
    "an answer that ends with %s is incomplete",
    async (finishReason) => {
      const content = { role: "model", parts: [{ text: "Half of" }] };
      const server = Bun.serve({
        port: 0,
        hostname: "127.0.0.1",
        fetch: () => Response.json({ candidates: [{ content, finishReason }] }),
      });
      try {
        const file = await openModel(google, DEVICE, { base_url: `http://127.0.0.1:${server.port}` });
        const error = await failure(ask(file));
        expect(error).toMatchObject({ code: "UNAVAILABLE", retryable: true });
        expect(error.message).toContain(finishReason);
      } finally {
        await server.stop(true);
      }
    },
  );

  test("an error in a list, as a proxy sends it, is understood", async () => {
    const body = [{ error: { code: 503, message: "overloaded", status: "UNAVAILABLE" } }];
    const error = await failed({ kind: "status", status: 503, body });
    expect(error).toMatchObject({ code: "UNAVAILABLE" });
    expect(error.message).toContain("answered 503: overloaded");
  });
});

test("it is found by either of its keys", async () => {
  const { provider } = google.devices[DEVICE];
  expect(await provider.detect({ GEMINI_API_KEY: "k" })).toEqual({ model: expect.any(String) });
  expect(await provider.detect({ GOOGLE_GENERATIVE_AI_API_KEY: "k" })).toEqual({ model: expect.any(String) });
  expect(await provider.detect({ GEMINI_API_KEY: "" })).toBeNull();
});

test("without a key no request is made", async () => {
  await using server = await ModelServer.start([{ text: "ok" }]);
  const file = await openModel(google, DEVICE, { base_url: server.url, key: null });
  expect(await failure(ask(file))).toMatchObject({ code: "UNAVAILABLE", retryable: false });
  expect(server.requests).toEqual([]);
});
