import { describe, expect, test } from "bun:test";
import { EventJsonDepth } from "../../plugins/_model/event-json-depth.ts";
import { requestFetch } from "../../plugins/_model/fetch.ts";
import { isTooDeep } from "../../plugins/_model/json-depth.ts";
import { failureOf } from "../support/model-server/device.ts";

const MB = new Uint8Array(1024 ** 2).fill(120);

async function* endless(): AsyncGenerator<Uint8Array> {
  for (;;) yield MB;
}

for (const [status, streams] of [
  [200, false],
  [500, false],
  [500, true],
] as const)
  test(`an answer without end is given up (${status}, ${streams ? "streamed" : "in one piece"})`, async () => {
    const server = Bun.serve({
      port: 0,
      hostname: "127.0.0.1",
      fetch: () => new Response(endless(), { status, headers: { "content-type": "text/plain" } }),
    });
    try {
      const url = `http://127.0.0.1:${server.port}`;
      const blame = { provider: "x", keyVariable: "K", urlVariable: "U", url, model: "m", key: "" };
      let heard = 0;
      const read = requestFetch(streams, blame, () => heard++)(url).then((response) => response.text());
      expect(await failureOf(read)).toMatchObject({ code: "DRIVER", retryable: false });
      expect(heard > 0, "an error is no sign of life").toBe(status === 200);
    } finally {
      await server.stop(true);
    }
  });

test.each([
  [200, { code: "DRIVER", retryable: true }],
  [500, null],
])("a document that is nested without end is looked into by nobody (%i)", async (status, error) => {
  const deep = `{"error":${"[".repeat(100_000)}${"]".repeat(100_000)}}`;
  const headers = { "content-type": "application/json" };
  const server = Bun.serve({
    port: 0,
    hostname: "127.0.0.1",
    fetch: () => new Response(deep, { status, headers }),
  });
  try {
    const url = `http://127.0.0.1:${server.port}`;
    const blame = { provider: "x", keyVariable: "K", urlVariable: "U", url, model: "m", key: "" };
    const asked = requestFetch(false, blame, () => undefined)(url);
    if (error === null) expect(await (await asked).text()).toBe("");
    else expect(await failureOf(asked)).toMatchObject(error);
  } finally {
    await server.stop(true);
  }
});

describe("an event of a stream", () => {
  const TOO_DEEP = nested(5_001);
  const LIMIT = nested(5_000);
  const spread = (json: string): string => json.replaceAll("[[", "[\ndata: [");
  test.each<[string, string, boolean]>([
    ["5,000 levels", `data: ${LIMIT}\n\n`, false],
    ["5,001 levels", `data: ${TOO_DEEP}\n\n`, true],
    ["behind others", `data: {}\n\nevent: a\ndata: {}\n\ndata: ${TOO_DEEP}\n\n`, true],
    ["before others", `data: ${TOO_DEEP}\n\ndata: {}\n\n`, true],
    ["lines that end with CR LF", `data: {}\r\n\r\ndata: ${TOO_DEEP}\r\n\r\n`, true],
    ["many lines", `data: ${spread(TOO_DEEP)}\n\n`, true],
    ["behind a comment with a quote", `: "\ndata: ${TOO_DEEP}\n\n`, true],
    ["without its end", `data: ${TOO_DEEP}`, true],
    ["in a string", `data: {"a":"${TOO_DEEP}"}\n\n`, false],
    ["in a comment", `: ${TOO_DEEP}\ndata: {}\n\n`, false],
    ["two of half the levels", `data: ${"[".repeat(3_000)}\n\n`.repeat(2), false],
    ["many that are flat", 'data: {"a":[1]}\r\n\r\n'.repeat(3_000), false],
  ])("of what depth is seen however it comes: %s", (_, text, expected) => {
    for (const size of [1, 2, 7, 1000, 5_003, 5_009, text.length]) {
      const events = new EventJsonDepth();
      const bytes = Buffer.from(text);
      let tooDeep = false;
      for (let at = 0; at < bytes.length && !tooDeep; at += size) {
        tooDeep = events.isTooDeep(bytes.subarray(at, at + size));
      }
      expect([size, tooDeep || events.endsTooDeep()]).toEqual([size, expected]);
    }
  });

  test("that is nested without end does not reach who would parse it, those before it do", async () => {
    const deep = `data: ${nested(100_000)}\n\n`;
    const server = Bun.serve({
      port: 0,
      hostname: "127.0.0.1",
      fetch: () =>
        new Response(
          (async function* () {
            yield "data: {}\n\n";
            yield deep;
          })(),
          { headers: { "content-type": "text/event-stream" } },
        ),
    });
    try {
      const url = `http://127.0.0.1:${server.port}`;
      const blame = { provider: "x", keyVariable: "K", urlVariable: "U", url, model: "m", key: "" };
      const { body } = await requestFetch(true, blame, () => undefined)(url);
      let seen = "";
      const read = (async () => {
        for await (const chunk of body ?? []) seen += Buffer.from(chunk).toString();
      })();
      expect(await failureOf(read)).toMatchObject({ code: "DRIVER", retryable: true });
      expect(seen).not.toContain(deep);
    } finally {
      await server.stop(true);
    }
  });
});

test.each([
  ["500 levels", nested(500), false],
  ["501 levels", nested(501), true],
  ["objects and lists in turn", `${'{"a":['.repeat(251)}1${"]}".repeat(251)}`, true],
  ["side by side", `[${Array(9999).fill("[{}]").join(",")}]`, false],
  ["in a string", JSON.stringify({ text: nested(9999) }), false],
  ["in a string behind quotes of its own", JSON.stringify({ text: `"\\"${nested(9999)}` }), false],
  ["behind such a string", `["\\\\",${nested(501)}]`, true],
  ["in a string that has no end", `"${nested(9999)}`, false],
  ["in no JSON", "]".repeat(999), false],
])("what is nested too deep: %s", (_, json, tooDeep) => {
  expect(isTooDeep(json, 500)).toBe(tooDeep);
});

function nested(levels: number): string {
  return "[".repeat(levels) + "]".repeat(levels);
}
