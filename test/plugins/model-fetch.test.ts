import { expect, test } from "bun:test";
import { requestFetch } from "../../plugins/_model/fetch.ts";
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
      const response = await requestFetch(streams, blame, () => heard++)(url);
      expect(response.status).toBe(status);
      expect(await failureOf(response.text())).toMatchObject({ code: "DRIVER", retryable: false });
      expect(heard > 0, "an error is no sign of life").toBe(status === 200);
    } finally {
      await server.stop(true);
    }
  });
