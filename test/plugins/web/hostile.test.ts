import { afterAll, describe, expect, test } from "bun:test";
import { createServer, type Socket } from "node:net";
import { fetchPage, MAX_BODY, type Network } from "../../../plugins/web/fetch-page.ts";
import { readPage } from "../../../plugins/web/page-reader.ts";

/** A server that answers each path with bytes of its own, and never waits for the client. */
const requests: string[] = [];
const open = new Set<Socket>();
const server = createServer((socket) => {
  open.add(socket);
  socket.on("close", () => open.delete(socket));
  // Clients that give up cut the connection.
  socket.on("error", () => undefined);
  socket.once("data", (data) => {
    const [line = ""] = data.toString("latin1").split("\r\n");
    requests.push(line);
    const [, target = "/"] = line.split(" ");
    const answer = ANSWERS[new URL(target, "http://any").pathname] ?? ok("text/plain", "a page");
    answer(socket, target);
  });
});
await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
const address = server.address();
const port = typeof address === "object" && address !== null ? address.port : 0;
afterAll(() => {
  for (const socket of open) socket.destroy();
  server.close();
});

type Answer = (socket: Socket, target: string) => void;

function ok(type: string, body: string | Uint8Array, more = ""): Answer {
  const bytes = Buffer.from(body);
  return (socket) => {
    socket.write(
      `HTTP/1.1 200 OK\r\ncontent-type: ${type}\r\ncontent-length: ${bytes.length}\r\nconnection: close\r\n${more}\r\n`,
    );
    socket.end(bytes);
  };
}

/** Writes the piece until the client leaves. */
function endless(head: string, piece: Uint8Array | string): Answer {
  return (socket) => {
    socket.write(head);
    const more = (): void => {
      while (!socket.destroyed && socket.write(piece));
    };
    socket.on("drain", more);
    more();
  };
}

/** Writes the piece 20 times a second. */
function dripping(head: string, piece: string): Answer {
  return (socket) => {
    socket.write(head);
    const timer = setInterval(() => socket.write(piece), 50);
    socket.on("close", () => clearInterval(timer));
  };
}

const CHUNK = `100000\r\n${"x".repeat(0x100000)}\r\n`;
const CHUNKED = "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ntransfer-encoding: chunked\r\n\r\n";
const GIBIBYTE = bomb(1024);
const DEEP = `<html><body>${"<div>".repeat(200_000)}deep${"</div>".repeat(200_000)}</body></html>`;

const ANSWERS: Record<string, Answer> = {
  "/endless": endless(CHUNKED, CHUNK),
  "/bomb": ok("text/plain", GIBIBYTE, "content-encoding: gzip\r\n"),
  "/no-gzip": ok("text/plain", "this is not gzip", "content-encoding: gzip\r\n"),
  "/slow-head": dripping("HTTP/1.1 200 OK\r\n", "x-a: b\r\n"),
  "/slow-body": dripping(CHUNKED, "1\r\nx\r\n"),
  "/endless-head": endless("HTTP/1.1 200 OK\r\n", `x-long: ${"a".repeat(64 * 1024)}\r\n`),
  "/more": (socket, target) => {
    const next = Number(new URL(target, "http://any").searchParams.get("n")) + 1;
    socket.end(`HTTP/1.1 302 Found\r\nlocation: /more?n=${next}\r\ncontent-length: 0\r\n\r\n`);
  },
  "/to": (socket, target) => {
    const to = new URL(target, "http://any").searchParams.get("to");
    socket.end(`HTTP/1.1 302 Found\r\nlocation: ${to}\r\ncontent-length: 0\r\n\r\n`);
  },
  "/short": (socket) =>
    socket.end("HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 1000\r\n\r\nshort"),
  "/no-http": (socket) => socket.end("SSH-2.0-OpenSSH_9.9\r\n"),
  "/latin1-as-utf8": ok("text/plain; charset=utf-8", Buffer.from("caf\u00e9", "latin1")),
  "/no-charset": ok("text/plain; charset=klingon", "plain"),
  "/utf16": ok("text/plain; charset=utf-8", Buffer.from("\ufeffwide", "utf16le")),
  "/png-as-html": ok("text/html", Buffer.from("89504e470d0a1a0a0000000d49484452", "hex")),
  "/html-as-png": ok("image/png", "<html><body>hello</body></html>"),
  "/program": ok("", Buffer.from("7f454c46020101000000000000", "hex")),
  "/pdf-lie": ok("application/pdf", "no PDF at all"),
  "/deep": ok("text/html", DEEP),
  "/attributes": ok("text/html", `<p ${"a=1 ".repeat(500_000)}>many attributes</p>`),
};

function bomb(mebibytes: number): Uint8Array {
  return Bun.gzipSync(Buffer.alloc(mebibytes * 1024 ** 2), { level: 9 });
}

function network(more: Partial<Network> = {}): Network {
  const resolve = async (): Promise<string[]> => ["127.0.0.1"];
  const connect = async (): Promise<null> => null;
  return {
    env: {},
    addresses: ["127.0.0.1"],
    connect,
    resolve,
    signal: new AbortController().signal,
    ...more,
  };
}

const at = (path: string): string => `http://127.0.0.1:${port}${path}`;

async function page(path: string, signal = AbortSignal.timeout(30_000)) {
  const fetched = await fetchPage(at(path), network({ signal }));
  if ("to" in fetched) throw new Error(`a redirect to ${fetched.to}`);
  return fetched;
}

const read = async (path: string, signal?: AbortSignal) =>
  (await readPage(await page(path, signal), signal ?? AbortSignal.timeout(30_000))).text;

describe("a hostile server", () => {
  test.each([
    "http://169.254.169.254/latest/meta-data/",
    "http://[::ffff:127.0.0.1]/",
    "http://[::1]/",
    "http://2130706433:1/",
    "http://0x7f.1:1/",
    "http://10.0.0.1/",
  ])("that redirects to %s is not followed, and the address is refused when it is asked for", async (to) => {
    requests.length = 0;
    const fetched = await fetchPage(at(`/to?to=${encodeURIComponent(to)}`), network());
    if (!("to" in fetched)) throw new Error("followed");
    expect(requests).toHaveLength(1);
    const refused = fetchPage(fetched.to, network({ addresses: [] }));
    await expect(refused).rejects.toMatchObject({ code: "PERMISSION" });
  });

  test("whose name has another address at the redirect is checked again", async () => {
    requests.length = 0;
    const found = [["127.0.0.1"], ["10.0.0.1"]];
    const resolve = async (): Promise<string[]> => found.shift() ?? [];
    const rebound = fetchPage(`http://rebind.example:${port}/to?to=/secret`, network({ resolve }));
    await expect(rebound).rejects.toMatchObject({ code: "PERMISSION" });
    expect(requests).toHaveLength(1);
  });

  test("that redirects 10,000 times is asked 6 times", async () => {
    requests.length = 0;
    await expect(page("/more?n=0")).rejects.toMatchObject({ code: "UNAVAILABLE" });
    expect(requests).toHaveLength(6);
  });

  test("with a body that has no end, or a gibibyte in gzip, is cut at the limit", async () => {
    const before = process.memoryUsage.rss();
    for (const path of ["/endless", "/bomb"]) {
      const { body, truncated } = await page(path);
      expect([path, body.byteLength, truncated]).toEqual([path, MAX_BODY, true]);
    }
    expect((process.memoryUsage.rss() - before) / 1024 ** 2).toBeLessThan(500);
  });

  test.each(["/slow-head", "/slow-body", "/endless-head"])(
    "of %s is given up at the deadline",
    async (path) => {
      const began = performance.now();
      await expect(page(path, AbortSignal.timeout(1_000))).rejects.toThrow();
      expect(performance.now() - began).toBeLessThan(10_000);
    },
  );

  test.each(["/short", "/no-http", "/no-gzip"])("of %s fails with a code", async (path) => {
    await expect(page(path)).rejects.toMatchObject({ code: "UNAVAILABLE" });
  });

  test.each([
    ["/latin1-as-utf8", "caf\ufffd"],
    ["/no-charset", "plain"],
    ["/utf16", "wide"],
  ])("with the wrong charset in %s is read as %s", async (path, text) => {
    expect(await read(path)).toBe(text);
  });

  test.each(["/html-as-png", "/program", "/pdf-lie"])(
    "that lies about the type of %s is refused",
    async (path) => {
      await expect(read(path)).rejects.toMatchObject({ code: "INVALID" });
    },
  );

  test("with a page that breaks its parser ends within its deadline, and blocks nothing meanwhile", async () => {
    for (const path of ["/deep", "/attributes", "/png-as-html"]) {
      let ticks = 0;
      const timer = setInterval(() => ticks++, 10);
      const began = performance.now();
      // Text, or a failure: the page decides. A failure has a code or is the deadline's.
      await read(path, AbortSignal.timeout(3_000)).catch((thrown: unknown) =>
        expect(thrown).toHaveProperty("message"),
      );
      clearInterval(timer);
      const ms = performance.now() - began;
      expect(ms).toBeLessThan(10_000);
      if (ms > 500) expect(ticks).toBeGreaterThan(10);
    }
  });
});

describe("with a proxy", () => {
  const env = { HTTP_PROXY: `http://127.0.0.1:${port}`, HTTPS_PROXY: `http://127.0.0.1:${port}` };
  const unknown = async (): Promise<string[]> => {
    throw new Error("ENOTFOUND");
  };

  test("a name that only the proxy can resolve is asked of it, https by CONNECT", async () => {
    requests.length = 0;
    const through = network({ env, addresses: [], resolve: unknown });
    expect(await fetchPage("http://inside.example:81/page", through)).toMatchObject({ type: "text/plain" });
    await expect(fetchPage("https://inside.example/page", through)).rejects.toMatchObject({
      code: "UNAVAILABLE",
    });
    expect(requests).toEqual([
      "GET http://inside.example:81/page HTTP/1.1",
      "CONNECT inside.example:443 HTTP/1.1",
    ]);
  });

  test.each([
    "http://10.0.0.1/",
    "http://[::ffff:10.0.0.1]/",
    "http://private.example/",
    "https://127.0.0.1/",
  ])("%s is refused before the proxy is asked", async (url) => {
    requests.length = 0;
    const resolve = async (): Promise<string[]> => ["192.168.0.1"];
    await expect(fetchPage(url, network({ env, addresses: [], resolve }))).rejects.toMatchObject({
      code: "PERMISSION",
    });
    expect(requests).toEqual([]);
  });
});
