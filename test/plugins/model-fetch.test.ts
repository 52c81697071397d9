import { describe, expect, test } from "bun:test";
import { JsonDepth } from "../../plugins/_lib/json.ts";
import { requestFetch } from "../../plugins/_model/open.ts";
import { failure } from "../support/failure.ts";

const MB = new Uint8Array(1024 ** 2).fill(120);

async function* endless(): AsyncGenerator<Uint8Array> {
  for (;;) yield MB;
}

/** Serves one response and fetches it as a provider package does. */
async function fetched(response: () => Response, streams: boolean, onBytes = () => undefined) {
  const server = Bun.serve({ port: 0, hostname: "127.0.0.1", fetch: response });
  const url = `http://127.0.0.1:${server.port}`;
  const blame = { provider: "x", keyVariable: "K", urlVariable: "U", url, model: "m", key: "" };
  return {
    answer: requestFetch(streams, blame, {}, onBytes)(url),
    [Symbol.asyncDispose]: () => server.stop(true),
  };
}

for (const [status, streams] of [
  [200, false],
  [500, false],
  [500, true],
] as const)
  test(`an endless answer is ended (${status}, ${streams ? "streamed" : "in one piece"})`, async () => {
    const response = () => new Response(endless(), { status, headers: { "content-type": "text/plain" } });
    let pieces = 0;
    await using server = await fetched(response, streams, () => void pieces++);
    const read = server.answer.then((answer) => answer.text());
    expect(await failure(read)).toMatchObject({ code: "DRIVER", retryable: false });
    expect(pieces > 0, "an error is not a sign that the model works").toBe(status === 200);
  });

describe("an answer that is nested too deeply", () => {
  const deep = `{"error":${nested(100_000)}}`;
  const headers = { "content-type": "application/json" };

  test("fails before it is parsed", async () => {
    await using server = await fetched(() => new Response(deep, { headers }), false);
    const started = performance.now();
    expect(await failure(server.answer)).toMatchObject({ code: "DRIVER", retryable: true });
    // Parsing it would block the thread for a second.
    expect(performance.now() - started).toBeLessThan(500);
  });

  test("with blank lines in it fails too", async () => {
    const spread = deep.replaceAll("[[[[", "[[\n\n[[");
    await using server = await fetched(() => new Response(spread, { headers }), false);
    expect(await failure(server.answer)).toMatchObject({ code: "DRIVER", retryable: true });
  });

  test("of an error has the status without the body", async () => {
    await using server = await fetched(() => new Response(deep, { status: 500, headers }), false);
    const answer = await server.answer;
    expect(answer.status).toBe(500);
    expect((await answer.text()).length).toBeLessThan(5_100);
  });

  test("ends a stream, after the events before it", async () => {
    const event = `data: ${nested(100_000)}\n\n`;
    const events = async function* () {
      yield "data: {}\n\n";
      yield event;
    };
    const response = () => new Response(events(), { headers: { "content-type": "text/event-stream" } });
    await using server = await fetched(response, true);
    const { body } = await server.answer;
    let seen = "";
    const read = (async () => {
      for await (const chunk of body ?? []) seen += Buffer.from(chunk).toString();
    })();
    expect(await failure(read)).toMatchObject({ code: "DRIVER", retryable: true });
    expect(seen).not.toContain(event);
  });
});

describe("the depth of a server-sent event", () => {
  const TOO_DEEP = nested(5_001);
  const LIMIT = nested(5_000);
  const spread = (json: string): string => json.replaceAll("[[", "[\ndata: [");
  test.each<[string, string, boolean]>([
    ["at the limit", `data: ${LIMIT}\n\n`, false],
    ["beyond the limit", `data: ${TOO_DEEP}\n\n`, true],
    ["after other events", `data: {}\n\nevent: a\ndata: {}\n\ndata: ${TOO_DEEP}\n\n`, true],
    ["before other events", `data: ${TOO_DEEP}\n\ndata: {}\n\n`, true],
    ["lines that end with CR LF", `data: {}\r\n\r\ndata: ${TOO_DEEP}\r\n\r\n`, true],
    ["lines that end with CR", `: "\rdata: ${TOO_DEEP}\r\r`, true],
    ["many lines", `data: ${spread(TOO_DEEP)}\n\n`, true],
    ["after a comment with a quote", `: "\ndata: ${TOO_DEEP}\n\n`, true],
    ["without its end", `data: ${TOO_DEEP}`, true],
    ["in a string", `data: {"a":"${TOO_DEEP}"}\n\n`, false],
    ["two events with half the levels each", `data: ${"[".repeat(3_000)}\n\n`.repeat(2), false],
    ["the same with CR LF", `data: ${"[".repeat(3_000)}\r\n\r\n`.repeat(2), false],
    ["many flat events", 'data: {"a":[1]}\r\n\r\n'.repeat(3_000), false],
  ])("is counted however its bytes arrive: %s", (_, text, expected) => {
    const bytes = Buffer.from(text);
    for (const size of [1, 2, 7, 1000, 5_003, 5_009, text.length]) {
      const depth = new JsonDepth("events");
      let exceeds = false;
      for (let at = 0; at < bytes.length && !exceeds; at += size) {
        exceeds = depth.exceeds(bytes.subarray(at, at + size));
      }
      expect([size, exceeds]).toEqual([size, expected]);
    }
  });

  test("has a count of its bytes, which begins again with each event", () => {
    const depth = new JsonDepth("events");
    expect([depth.exceeds(Buffer.from("data: [1")), depth.bytes]).toEqual([false, 8]);
    expect([depth.exceeds(Buffer.from("]\n\nda")), depth.bytes]).toEqual([false, 2]);
  });
});

test.each([
  ["500 levels", nested(500), false],
  ["501 levels", nested(501), true],
  ["objects and lists in turn", `${'{"a":['.repeat(251)}1${"]}".repeat(251)}`, true],
  ["side by side", `[${Array(9999).fill("[{}]").join(",")}]`, false],
  ["in a string", JSON.stringify({ text: nested(9999) }), false],
  ["in a string after escaped quotes", JSON.stringify({ text: `"\\"${nested(9999)}` }), false],
  ["after a string that ends with a backslash", `["\\\\",${nested(501)}]`, true],
  ["in a string without an end", `"${nested(9999)}`, false],
  ["not JSON", "]".repeat(999), false],
  ["after closing brackets", "]".repeat(999) + nested(501), true],
])("a document is nested too deeply: %s", (_, json, expected) => {
  expect(new JsonDepth("one", 500).exceeds(Buffer.from(json))).toBe(expected);
});

function nested(levels: number): string {
  return "[".repeat(levels) + "]".repeat(levels);
}
