import { expect, test } from "bun:test";
import { requestFetch } from "../../plugins/_model/fetch.ts";
import { isTooDeep } from "../../plugins/_model/nesting.ts";
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
