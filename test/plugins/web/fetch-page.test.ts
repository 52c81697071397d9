import { afterAll, describe, expect, test } from "bun:test";
import { fetchPage, MAX_BODY, type Network } from "../../../plugins/web/fetch-page.ts";
import { SyscallError } from "../../../src/plugin/index.ts";

/** Requests as they came: host and path. */
const requests: string[] = [];
const server = Bun.serve({
  hostname: "127.0.0.1",
  port: 0,
  idleTimeout: 30,
  fetch(request) {
    const url = new URL(request.url);
    requests.push(`${request.headers.get("host")}${url.pathname}`);
    return answer(url);
  },
});
afterAll(() => server.stop(true));

const host = `127.0.0.1:${server.port}`;
const bomb = Bun.gzipSync(new Uint8Array(64 * 1024 ** 2));

function answer({ pathname, searchParams }: URL): Response | Promise<Response> {
  const to = searchParams.get("to") ?? "";
  switch (pathname) {
    case "/redirect":
      return new Response(null, { status: 302, headers: { location: to } });
    case "/loop":
      return new Response(null, { status: 302, headers: { location: "/loop" } });
    case "/status":
      return new Response("no", { status: Number(to), headers: { "retry-after": "7" } });
    case "/large":
      return new Response(new Uint8Array(MAX_BODY + 5));
    case "/bomb":
      return new Response(bomb, { headers: { "content-encoding": "gzip" } });
    case "/silent":
      return new Promise(() => undefined);
    default:
      return new Response("a page", { headers: { "content-type": "text/plain" } });
  }
}

function network(more: Partial<Network> = {}): Network {
  return {
    env: {},
    addresses: ["127.0.0.1"],
    connect: async () => null,
    resolve: async (name) => {
      throw new Error(`unexpected: ${name}`);
    },
    signal: new AbortController().signal,
    ...more,
  };
}

describe("a page", () => {
  test("comes with its type", async () => {
    expect(await fetchPage(`http://${host}/page#part`, network())).toEqual({
      url: `http://${host}/page`,
      type: "text/plain",
      body: Buffer.from("a page"),
      truncated: false,
    });
  });

  test("is asked of the address that was checked: its name is resolved once", async () => {
    let resolved = 0;
    const resolve = async (): Promise<string[]> => {
      resolved += 1;
      return resolved === 1 ? ["127.0.0.1"] : ["127.0.0.2"];
    };
    requests.length = 0;
    await fetchPage(`http://rebind.example:${server.port}/page`, network({ resolve }));
    expect(resolved).toBe(1);
    expect(requests).toEqual([`rebind.example:${server.port}/page`]);
  });

  test("is asked of the next address where one does not answer", async () => {
    const addresses = ["127.0.0.0/8"];
    const resolve = async (): Promise<string[]> => ["127.0.0.9", "127.0.0.1"];
    const page = await fetchPage(`http://two.example:${server.port}/page`, network({ addresses, resolve }));
    expect(page).toMatchObject({ url: `http://two.example:${server.port}/page` });
  });

  test("of an address that is not listed is refused before a byte is sent", async () => {
    requests.length = 0;
    const refused = fetchPage(`http://${host}/page`, network({ addresses: [] }));
    await expect(refused).rejects.toMatchObject({ code: "PERMISSION" });
    expect(requests).toEqual([]);
  });
});

describe("a redirect", () => {
  const through = (to: string) =>
    fetchPage(`http://${host}/redirect?to=${encodeURIComponent(to)}`, network());

  test("on the same host is followed", async () => {
    expect(await through("/other")).toMatchObject({ url: `http://${host}/other` });
  });

  test("to another host is reported, not followed", async () => {
    requests.length = 0;
    expect(await through("https://elsewhere.example/a")).toEqual({ to: "https://elsewhere.example/a" });
    expect(await through(`http://127.0.0.1:1/secret`)).toEqual({ to: "http://127.0.0.1:1/secret" });
    expect(requests).toHaveLength(2);
  });

  test.each(["file:///etc/passwd", "javascript:alert(1)", "http://user:pw@127.0.0.1/"])(
    "to %s is refused",
    async (to) => {
      await expect(through(to)).rejects.toMatchObject({ code: "INVALID" });
    },
  );

  test("that never ends is given up", async () => {
    const endless = fetchPage(`http://${host}/loop`, network());
    await expect(endless).rejects.toMatchObject({ code: "UNAVAILABLE" });
  });
});

describe("what fails", () => {
  test.each([
    [404, "NOT_FOUND"],
    [410, "NOT_FOUND"],
    [403, "PERMISSION"],
    [429, "EXHAUSTED"],
    [500, "UNAVAILABLE"],
  ])("status %i is %s", async (status, code) => {
    const failed = fetchPage(`http://${host}/status?to=${status}`, network());
    await expect(failed).rejects.toMatchObject({ code, ...(status === 429 && { retryAfterMs: 7_000 }) });
  });

  test.each(["file:///etc/passwd", "ftp://example.com/", "not a url", "http://me:secret@example.com/"])(
    "%s is no address of the web",
    async (url) => {
      await expect(fetchPage(url, network())).rejects.toMatchObject({ code: "INVALID" });
    },
  );

  test("a port that nobody listens on", async () => {
    const failed = fetchPage("http://127.0.0.1:1/", network());
    await expect(failed).rejects.toMatchObject({ code: "UNAVAILABLE" });
  });

  test("a silent server, by the signal", async () => {
    const controller = new AbortController();
    const failed = fetchPage(`http://${host}/silent`, network({ signal: controller.signal }));
    controller.abort(new SyscallError("CANCELLED", "late"));
    await expect(failed).rejects.toMatchObject({ code: "CANCELLED" });
  });
});

test.each(["/large", "/bomb"])("of %s only the first 10 MiB are read", async (path) => {
  const page = await fetchPage(`http://${host}${path}`, network());
  expect(page).toMatchObject({ truncated: true });
  expect("body" in page && page.body.byteLength).toBe(MAX_BODY);
});
