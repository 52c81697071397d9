import { expect, test } from "bun:test";
import { proxyFor } from "../../plugins/_lib/proxy.ts";
import { requestFetch } from "../../plugins/_model/open.ts";

const P = "http://proxy.example:3128";

test.each([
  ["https://api.example.com/v1", { https_proxy: P }, P],
  ["https://api.example.com/v1", { HTTPS_PROXY: P }, P],
  ["https://api.example.com/v1", { http_proxy: P }, undefined],
  ["http://api.example.com/v1", { HTTP_PROXY: P }, P],
  ["https://api.example.com/v1", { ALL_PROXY: P }, P],
  ["https://api.example.com/v1", { https_proxy: "", HTTPS_PROXY: P }, P],
  ["https://api.example.com/v1", { HTTPS_PROXY: "proxy.example:3128" }, P],
  ["https://api.example.com/v1", {}, undefined],
  ["http://localhost:11434/v1", { HTTP_PROXY: P }, undefined],
  ["http://127.0.0.1:11434/v1", { HTTP_PROXY: P }, undefined],
  ["https://api.example.com/v1", { HTTPS_PROXY: P, NO_PROXY: "*" }, undefined],
  ["https://api.example.com/v1", { HTTPS_PROXY: P, no_proxy: "other.com, example.com" }, undefined],
  ["https://api.example.com/v1", { HTTPS_PROXY: P, NO_PROXY: ".example.com" }, undefined],
  ["https://api.example.com/v1", { HTTPS_PROXY: P, NO_PROXY: "ample.com" }, P],
  ["https://api.example.com:8443/v1", { HTTPS_PROXY: P, NO_PROXY: "api.example.com:443" }, P],
  ["https://api.example.com:8443/v1", { HTTPS_PROXY: P, NO_PROXY: "api.example.com:8443" }, undefined],
])("the proxy of %s in %j is %p", (address, env, expected) => {
  expect(proxyFor(address, env)).toBe(expected);
});

test("a request goes through the proxy that the run's environment names", async () => {
  const asked: string[] = [];
  using proxy = Bun.serve({
    port: 0,
    hostname: "127.0.0.1",
    fetch(request) {
      asked.push(request.url);
      return new Response("proxied");
    },
  });
  const url = "http://models.example.com/v1/messages";
  const blame = { provider: "x", keyVariable: "K", urlVariable: "U", url, model: "m", key: "" };
  const env = { HTTP_PROXY: `http://127.0.0.1:${proxy.port}` };
  const answer = await requestFetch(false, blame, env, () => undefined)(url);
  expect(await answer.text()).toBe("proxied");
  expect(asked).toEqual([url]);
});
