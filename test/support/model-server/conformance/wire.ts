import { describe, expect, test } from "bun:test";
import type { LLMEvent, RateLimits, VFSFile } from "../../../../src/plugin/index.ts";
import { settled } from "../../fake-clock.ts";
import { ask, request } from "../device.ts";
import { dialects } from "../dialects/index.ts";
import { ModelServer, type RecordedRequest, type Turn } from "../server.ts";
import type { Answerer } from "./answers.ts";
import { type HttpDriver, openDriver } from "./driver.ts";
import type { Findings } from "./findings.ts";

/** What takes a look at the wire. */
export const WIRE = {
  turns: "a conversation of several turns",
  signed:
    "its thoughts go back with the calls they led to, as the provider signed them, to the same model alone",
  cut: "a call in whose middle the output limit was reached is not to be trusted",
  torn: "a stream that is cut anywhere on its way, within a character too",
  alive: "a server that is at work and says nothing: what keeps the line open is a sign of life",
  limits: "the rate limits that the answer's headers tell",
} as const;

/** Its answers are those of a scripted server. */
export function overHttp(driver: HttpDriver): Answerer {
  const { title, thinks } = driver;
  return {
    title,
    thinks,
    async answered(turn, stream) {
      await using server = await ModelServer.start([turn]);
      const file = await openDriver(driver, server.url);
      const outcome = await ask(file, { stream });
      await file.close();
      return outcome;
    },
  };
}

/** What goes over the wire, as a stream and in one piece. */
export function describeWire(driver: HttpDriver, findings: Findings): void {
  for (const stream of [true, false])
    describe(`on the wire, ${stream ? "streamed" : "in one piece"}`, () => wire(driver, findings, stream));
}

function wire(driver: HttpDriver, findings: Findings, stream: boolean): void {
  const holds = (row: string, work: () => Promise<void>) =>
    test(row, async () => {
      await work();
      findings.note(row, driver.title, stream ? "streamed" : "in one piece");
    });
  const answered = (turn: Turn) => overHttp(driver).answered(turn, stream);

  holds(WIRE.turns, async () => {
    const { sent, contents } = await conversation(driver, stream);
    const parts = ["You are careful.", "fix it", "a.ts", "b.ts", "the plan has changed", "I see", "go on"];
    expect(parts.filter((part) => !sent?.text.includes(part))).toEqual([]);
    expect(sent).toMatchObject({ model: "scripted", stream, assistantMessages: 2 });
    expect(sent?.path).toStartWith(driver.path);
    expect(contents, "a second request on the same file, the first one read or not").toEqual([
      "first",
      "third",
    ]);
  });

  if (driver.signs !== undefined)
    holds(WIRE.signed, async () => {
      for (const model of ["scripted", "another"]) {
        const { calls, sent } = await goesOn(driver, stream, model);
        expect(calls).toHaveLength(2);
        expect(partsOf(sent.body).some((part) => Bun.deepEquals(part, driver.signs))).toBe(
          model === "scripted",
        );
      }
    });
  else findings.without(WIRE.signed, driver.title);

  holds(WIRE.cut, async () => {
    const turn: Turn = {
      tool_calls: [{ name: "Bash", input: { command: "rm -r x" } }],
      stop: "max_tokens",
    };
    const { answer } = await answered(turn);
    expect(answer.stop_reason).toBe("max_tokens");
    expect(answer.tool_calls[0]?.invalid?.reason).toContain("limit");
  });

  if (stream)
    holds(WIRE.torn, async () => {
      const tool_calls = [{ id: "call_a", name: "Bash", input: { command: "echo 'ä € 🎉'" } }];
      for (const torn of [1, 3, 7]) {
        const { answer } = await answered({ text: "zażółć 日本語 🎉", tool_calls, torn });
        expect(answer).toMatchObject({ content: "zażółć 日本語 🎉", tool_calls });
      }
    });

  if (stream)
    holds(WIRE.alive, async () => {
      const line = new Line();
      const server = Bun.serve({
        port: 0,
        hostname: "127.0.0.1",
        idleTimeout: 0,
        fetch: (request) => line.answer(new URL(request.url).pathname),
      });
      try {
        const file = await openDriver(driver, `http://127.0.0.1:${server.port}`);
        const { signal } = new AbortController();
        const first = (async () => {
          await file.write(JSON.stringify({ ...request, stream }), signal);
          return JSON.parse(String(await file.read(100_000, signal)));
        })();
        expect(await line.keptOpenUntil(first)).toEqual({ type: "reasoning_delta", text: "" });
        line.finish();
        expect((await events(file, signal)).at(-1)).toEqual({ type: "stop", reason: "end_turn" });
        await file.close();
      } finally {
        await server.stop(true);
      }
    });

  holds(WIRE.limits, async () => {
    for (const headers of HEADERS) {
      const { answer, events } = await answered({ text: "so", headers });
      if (stream) expect(events[0]).toEqual({ type: "limits", limits: LIMITS });
      else expect(answer.limits).toEqual(LIMITS);
    }
    const { answer, events } = await answered({ text: "so" });
    expect(answer.limits).toBeUndefined();
    expect(events.map(({ type }): string => type)).not.toContain("limits");
  });
}

/** A stream of comments, and of an answer at the end. */
class Line {
  #path = "";
  #controller: ReadableStreamDefaultController<string> | undefined;

  answer(path: string): Response {
    this.#path = path;
    const body = new ReadableStream<string>({
      start: (controller) => {
        this.#controller = controller;
      },
    });
    return new Response(body, { headers: { "content-type": "text/event-stream" } });
  }

  /** One comment after the other, as servers send them that have a queue. */
  async keptOpenUntil<T>(something: Promise<T>): Promise<T> {
    let over = false;
    const end = (): void => {
      over = true;
    };
    something.then(end, end);
    while (!over) {
      this.#controller?.enqueue(": at work\n\n");
      await settled();
    }
    return something;
  }

  finish(): void {
    const dialect = dialects.find((one) => one.asked(this.#path) !== undefined);
    const { frames = [] } = dialect?.stream({ text: "so" }, { index: 0, model: "scripted" }) ?? {};
    for (const frame of frames) this.#controller?.enqueue(frame);
    this.#controller?.close();
  }
}

async function events(file: VFSFile, signal: AbortSignal): Promise<LLMEvent[]> {
  const found: LLMEvent[] = [];
  for (;;) {
    const piece = String(await file.read(100_000, signal));
    if (piece === "") return found;
    found.push(JSON.parse(piece));
  }
}

/** A conversation whose first answer thinks and calls, and whose second request is made of this model. */
async function goesOn(driver: HttpDriver, stream: boolean, model: string) {
  const tool_calls = [
    { id: "call_a", name: "Bash", input: { command: "ls" } },
    { id: "call_b", name: "Bash", input: { command: "pwd" } },
  ];
  await using server = await ModelServer.start([{ reasoning: "hm, 42", tool_calls }, { text: "done" }]);
  const file = await openDriver(driver, server.url);
  const { answer } = await ask(file, { stream });
  const calls = answer.tool_calls;
  const results = calls.map(({ id }) => ({ role: "tool" as const, tool_call_id: id, content: "ok" }));
  const said = { role: "assistant" as const, content: answer.content, tool_calls: calls };
  await ask(file, { stream, model, messages: [{ role: "user", content: "fix it" }, said, ...results] });
  await file.close();
  const [, sent] = server.requests;
  if (sent === undefined) throw new Error("there was no second request");
  return { calls, sent };
}

/** Every object in a document, at any depth. */
function partsOf(body: unknown): object[] {
  const found: object[] = [];
  JSON.stringify(body, (_key, value) => {
    if (typeof value === "object" && value !== null) found.push(value);
    return value;
  });
  return found;
}

/** How Anthropic, and OpenAI and all who speak like it, tell of their limits. */
const HEADERS: Record<string, string>[] = [
  {
    date: "Thu, 01 Jan 2026 00:00:00 GMT",
    "anthropic-ratelimit-requests-limit": "50",
    "anthropic-ratelimit-requests-remaining": "12",
    "anthropic-ratelimit-requests-reset": "2026-01-01T00:06:00Z",
    "anthropic-ratelimit-tokens-limit": "90000",
    "anthropic-ratelimit-tokens-remaining": "80000",
    "anthropic-ratelimit-input-tokens-limit": "60000",
    "anthropic-ratelimit-input-tokens-remaining": "59000",
    "anthropic-ratelimit-input-tokens-reset": "2026-01-01T00:00:01Z",
  },
  {
    "x-ratelimit-limit-requests": "50",
    "x-ratelimit-remaining-requests": "12",
    "x-ratelimit-reset-requests": "6m0s",
    "x-ratelimit-limit-tokens": "60000",
    "x-ratelimit-remaining-tokens": "59000",
    "x-ratelimit-reset-tokens": "1000ms",
  },
];
const LIMITS: RateLimits = {
  requests: { limit: 50, remaining: 12, reset_ms: 360_000 },
  tokens: { limit: 60_000, remaining: 59_000, reset_ms: 1_000 },
};

/** A request that carries calls and results, between two plain ones of which the first is not read. */
async function conversation(
  driver: HttpDriver,
  stream: boolean,
): Promise<{ sent: RecordedRequest | undefined; contents: string[] }> {
  await using server = await ModelServer.start([{ text: "first" }, { text: "second" }, { text: "third" }]);
  const file = await openDriver(driver, server.url);
  const { answer: first } = await ask(file, {
    stream,
    messages: [
      { role: "user", content: "fix it" },
      {
        role: "assistant",
        content: "",
        tool_calls: [
          { id: "c1", name: "Bash", input: { command: "ls" } },
          { id: "c2", name: "Bash", input: { command: "ls b" } },
        ],
      },
      { role: "tool", tool_call_id: "c1", content: "a.ts" },
      { role: "tool", tool_call_id: "c2", content: "b.ts" },
      { role: "system", content: "the plan has changed" },
      { role: "assistant", content: "I see" },
      { role: "user", content: "go on" },
    ],
  });
  await file.write(JSON.stringify({ ...request, stream }), new AbortController().signal);
  const { answer: third } = await ask(file, { stream });
  await file.close();
  return { sent: server.requests[0], contents: [first.content, third.content] };
}
