import { afterAll, describe, expect, test } from "bun:test";
import { type Code, type Plugin, SyscallError, type VFSFile } from "../../../src/plugin/index.ts";
import { ask, failureOf, openModel, request } from "./device.ts";
import { type Fault, ModelServer, type Turn } from "./server.ts";

export interface Variant {
  title: string;
  device: string;
  /** The server's base_url as this driver takes it. */
  baseUrl(server: ModelServer): string;
  extra?: Record<string, unknown>;
  /** Where the requests must arrive. */
  path: string;
  /** The variable a refused key points to. */
  keyVariable: string;
  /** How the provider calls these in an error document. */
  names: { overloaded: string; limited: string; tooLong: string };
  /** The protocol carries thoughts. */
  thinks: boolean;
}

interface Expected {
  code: Code;
  retryable: boolean;
  says?: RegExp;
  retryAfterMs?: number;
  tooLong?: boolean;
}

/** Every driver that speaks HTTP, against every way an answer can go wrong, streamed and not. */
export function driverGrid(plugin: Plugin, variant: Variant): void {
  for (const stream of [true, false])
    describe(`${variant.title}, ${stream ? "streamed" : "in one piece"}`, () => {
      describeAnswers(plugin, variant, stream);
      describeFaults(plugin, variant, stream);
      describeEnds(plugin, variant, stream);
    });
}

function describeAnswers(plugin: Plugin, variant: Variant, stream: boolean): void {
  const answered = async (turn: Turn) => {
    await using server = await ModelServer.start([turn]);
    const file = await openModel(plugin, variant.device, {
      base_url: variant.baseUrl(server),
      extra: variant.extra,
    });
    const outcome = await ask(file, { stream });
    await file.close();
    return { ...outcome, sent: server.requests[0] };
  };

  test("gives text, tool calls, usage and the reason it stopped", async () => {
    const { answer, events, sent } = await answered({
      text: "Let me look at that",
      tool_calls: [
        { id: "call_a", name: "Bash", input: { command: "ls" } },
        { id: "call_b", name: "Bash", input: { command: "pwd" } },
      ],
      usage: { input_tokens: 100, output_tokens: 20, cached_tokens: 60 },
    });
    expect(answer).toMatchObject({
      content: "Let me look at that",
      tool_calls: [
        { id: "call_a", name: "Bash", input: { command: "ls" } },
        { id: "call_b", name: "Bash", input: { command: "pwd" } },
      ],
      stop_reason: "tool_calls",
      usage: { input_tokens: 100, output_tokens: 20, cached_tokens: 60 },
      tokens_used: 120,
    });
    expect(sent?.path).toBe(variant.path);
    expect(sent?.body).toMatchObject({ model: "scripted" });
    expect(sent?.body.stream === true).toBe(stream);
    if (stream) expect(events.filter((event) => event.type === "text_delta").length).toBeGreaterThan(1);
    if (stream) expect(events.at(-1)).toEqual({ type: "stop", reason: "tool_calls" });
  });

  if (variant.thinks)
    test("tells thoughts apart from the answer", async () => {
      const { answer } = await answered({ reasoning: "hm, 42", text: "It is 42" });
      expect(answer).toMatchObject({ reasoning: "hm, 42", content: "It is 42" });
    });

  for (const [stop, expected] of [
    ["end_turn", "end_turn"],
    ["max_tokens", "max_tokens"],
    ["refusal", "refusal"],
  ] as const)
    test(`says ${expected} when it stopped for that`, async () => {
      expect((await answered({ text: "so", stop })).answer.stop_reason).toBe(expected);
    });

  test("hands arguments that are no JSON object on as what they are", async () => {
    for (const rawArguments of ['{"command": "ls', "[1,2]", '"ls"']) {
      const { answer } = await answered({ tool_calls: [{ name: "Bash", rawArguments }] });
      const [call] = answer.tool_calls;
      expect(call).toMatchObject({ name: "Bash", input: {} });
      expect(call?.invalid?.reason).toBeString();
      expect(call?.invalid?.text).toContain(rawArguments.slice(1, 4));
    }
  });

  test("does not trust a call at whose end the output limit was reached", async () => {
    const turn: Turn = { tool_calls: [{ name: "Bash", input: { command: "rm -r x" } }], stop: "max_tokens" };
    const { answer } = await answered(turn);
    // Responses says "completed" for it; there the limit cannot be seen.
    if (answer.stop_reason === "max_tokens") expect(answer.tool_calls[0]?.invalid?.reason).toContain("limit");
    else expect(variant.path).toBe("/v1/responses");
  });

  test("passes an empty answer on: whether it counts is not the driver's to say", async () => {
    expect((await answered({})).answer).toMatchObject({ content: "", tool_calls: [] });
  });

  test("carries a conversation of several turns", async () => {
    await using server = await ModelServer.start([{ text: "done" }]);
    const file = await openModel(plugin, variant.device, {
      base_url: variant.baseUrl(server),
      extra: variant.extra,
    });
    await ask(file, {
      stream,
      messages: [
        { role: "user", content: "fix it" },
        {
          role: "assistant",
          content: "",
          tool_calls: [{ id: "c1", name: "Bash", input: { command: "ls" } }],
        },
        { role: "tool", tool_call_id: "c1", content: "a.ts" },
        { role: "system", content: "the plan has changed" },
        { role: "assistant", content: "I see" },
        { role: "user", content: "go on" },
      ],
    });
    await file.close();
    const text = server.requests[0]?.text ?? "";
    const parts = ["You are careful.", "fix it", "c1", "a.ts", "the plan has changed", "I see", "go on"];
    expect(parts.map((part) => text.includes(part))).toEqual(parts.map(() => true));
    expect(server.requests[0]?.assistantMessages).toBe(2);
  });

  test("answers a second request on the same file, the first one read or not", async () => {
    await using server = await ModelServer.start([{ text: "first" }, { text: "second" }, { text: "third" }]);
    const file = await openModel(plugin, variant.device, {
      base_url: variant.baseUrl(server),
      extra: variant.extra,
    });
    expect((await ask(file, { stream })).answer.content).toBe("first");
    await file.write(JSON.stringify({ ...request, stream }), new AbortController().signal);
    expect((await ask(file, { stream })).answer.content).toBe("third");
    await file.close();
  });
}

function describeFaults(plugin: Plugin, variant: Variant, stream: boolean): void {
  const later = new Date(Date.UTC(2026, 0, 1, 0, 0, 30)).toUTCString();
  const date = new Date(Date.UTC(2026, 0, 1)).toUTCString();
  const { overloaded, limited, tooLong } = variant.names;
  const refused: Expected = { code: "PERMISSION", retryable: false, says: new RegExp(variant.keyVariable) };
  const down: Expected = { code: "UNAVAILABLE", retryable: true };
  const faults: [string, Fault, Expected][] = [
    ["401", { kind: "status", status: 401 }, refused],
    ["403", { kind: "status", status: 403 }, refused],
    ["404", { kind: "status", status: 404 }, { code: "NOT_FOUND", retryable: false, says: /"scripted"/ }],
    ["400", { kind: "status", status: 400 }, { code: "INVALID", retryable: false }],
    [
      "a conversation that is too long",
      { kind: "status", status: tooLong === "request_too_large" ? 413 : 400, code: tooLong },
      { code: "INVALID", retryable: false, tooLong: true, says: /longer than the model takes/ },
    ],
    [
      "a conversation that is too long, told in words alone",
      { kind: "status", status: 400, message: "prompt is too long: 210000 tokens > 200000 maximum" },
      { code: "INVALID", retryable: false, tooLong: true, says: /longer than the model takes/ },
    ],
    ["402", { kind: "status", status: 402 }, { code: "EXHAUSTED", retryable: false }],
    [
      "429 with Retry-After in seconds",
      { kind: "status", status: 429, headers: { "retry-after": "7" } },
      { code: "EXHAUSTED", retryable: true, retryAfterMs: 7000 },
    ],
    [
      "429 with Retry-After as a date",
      { kind: "status", status: 429, headers: { "retry-after": later, date } },
      { code: "EXHAUSTED", retryable: true, retryAfterMs: 30_000 },
    ],
    [
      "429 with Retry-After in milliseconds",
      { kind: "status", status: 429, headers: { "retry-after-ms": "250", "retry-after": "1" } },
      { code: "EXHAUSTED", retryable: true, retryAfterMs: 250 },
    ],
    ["429 without a word on when", { kind: "status", status: 429 }, { code: "EXHAUSTED", retryable: true }],
    ["500", { kind: "status", status: 500 }, down],
    ["529", { kind: "status", status: 529 }, down],
    ["503 with a web page", { kind: "status", status: 503, body: "<html>Bad gateway" }, down],
    [
      "503 with Retry-After",
      { kind: "status", status: 503, headers: { "retry-after": "3" } },
      { ...down, retryAfterMs: 3000 },
    ],
    ["500 without a body", { kind: "status", status: 500, body: "" }, down],
    ["200 with an error body", { kind: "error_body", code: overloaded }, down],
    [
      "200 with an error nobody knows",
      { kind: "error_body", code: "odd" },
      { code: "DRIVER", retryable: true },
    ],
    ["an error within the stream", { kind: "error_event", code: overloaded, message: "too much" }, down],
    [
      "a limit reached within the stream",
      { kind: "error_event", code: limited },
      { code: "EXHAUSTED", retryable: true },
    ],
    ["a connection cut in the middle", { kind: "cut" }, down],
    [
      "an answer that ends too early",
      { kind: "end_early" },
      // Half a JSON document is not an answer that broke off but one that cannot be read.
      stream ? down : { code: "DRIVER", retryable: true },
    ],
    ["garbage", { kind: "garbage" }, { code: "DRIVER", retryable: true }],
    ["a web page", { kind: "web_page" }, { code: "DRIVER", retryable: false, says: /base_url/ }],
  ];
  for (const [name, fault, expected] of faults)
    test(`${name}: ${expected.code}, ${expected.retryable ? "may" : "must not"} be tried again`, async () => {
      await using server = await ModelServer.start([
        { text: "Half of this", tool_calls: [{ name: "Bash", input: { command: "rm -r x" } }], fault },
      ]);
      const file = await openModel(plugin, variant.device, {
        base_url: variant.baseUrl(server),
        extra: variant.extra,
      });
      const error = await failureOf(ask(file, { stream }));
      expect(`${error.code}: ${error.message}`).toStartWith(`${expected.code}: `);
      expect(error.retryable).toBe(expected.retryable);
      expect(error.retryAfterMs).toBe(expected.retryAfterMs);
      expect(error.tooLong).toBe(expected.tooLong);
      if (expected.says) expect(error.message).toMatch(expected.says);
      expect(server.requests, "a driver never tries twice").toHaveLength(1);
      expect(String(await file.read(100, new AbortController().signal)), "after an error comes the end").toBe(
        "",
      );
      await file.close();
    });

  test("a key is never shown, even where the server repeats it", async () => {
    const fault: Fault = { kind: "status", status: 401, message: "no such key: sk-very-secret" };
    await using server = await ModelServer.start([{ fault }]);
    const file = await openModel(plugin, variant.device, {
      base_url: variant.baseUrl(server),
      extra: variant.extra,
      key: "sk-very-secret",
    });
    const error = await failureOf(ask(file, { stream }));
    expect(
      server.requests[0]?.headers.get("authorization") ?? server.requests[0]?.headers.get("x-api-key"),
    ).toContain("sk-very-secret");
    expect(Bun.inspect(error)).not.toContain("sk-very-secret");
  });

  test("a server that is not there: UNAVAILABLE, with its address", async () => {
    const server = await ModelServer.start([]);
    const base_url = variant.baseUrl(server);
    await server.stop();
    const file = await openModel(plugin, variant.device, { base_url, extra: variant.extra });
    const error = await failureOf(ask(file, { stream }));
    expect(error).toMatchObject({ code: "UNAVAILABLE", retryable: true });
    expect(error.message).toContain(base_url.replace("/v1", ""));
    await file.close();
  });
}

function describeEnds(plugin: Plugin, variant: Variant, stream: boolean): void {
  const unhandled: unknown[] = [];
  const note = (error: unknown) => unhandled.push(error);
  process.on("unhandledRejection", note);
  afterAll(() => {
    process.off("unhandledRejection", note);
    expect(unhandled).toEqual([]);
  });

  for (const kind of ["hang", "hang_midway"] as const) {
    const withHung = async (use: (file: VFSFile, server: ModelServer) => Promise<void>) => {
      await using server = await ModelServer.start([
        { text: "Half of this", fault: { kind } },
        { text: "next" },
      ]);
      const file = await openModel(plugin, variant.device, {
        base_url: variant.baseUrl(server),
        extra: variant.extra,
      });
      await use(file, server);
      expect(await server.requests[0]?.closed).toBe("aborted");
      await file.close();
    };

    test(`${kind}: an abort ends it with CANCELLED and lets go of the connection`, async () => {
      await withHung(async (file, server) => {
        const controller = new AbortController();
        const asked = failureOf(ask(file, { stream }, controller.signal));
        await server.arrived(1);
        controller.abort();
        expect((await asked).code).toBe("CANCELLED");
        expect((await ask(file, { stream })).answer.content).toBe("next");
      });
    });

    test(`${kind}: the caller's own reason is what it gets`, async () => {
      await withHung(async (file, server) => {
        const controller = new AbortController();
        const asked = failureOf(ask(file, { stream }, controller.signal));
        await server.arrived(1);
        controller.abort(new SyscallError("TIMEOUT", "too slow"));
        expect((await asked).code).toBe("TIMEOUT");
      });
    });

    test(`${kind}: closing the file lets go of the connection`, async () => {
      await withHung(async (file, server) => {
        const controller = new AbortController();
        const asked = ask(file, { stream }, controller.signal).catch(() => "given up");
        await server.arrived(1);
        await file.close();
        expect(await asked).toBeDefined();
      });
    });
  }
}
