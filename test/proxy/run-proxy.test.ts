import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { mkdtempSync, rmSync, statSync } from "node:fs";
import { connect, createServer, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { ConnectionReport } from "../../src/proxy/connection-report.ts";
import { hostRules } from "../../src/proxy/host-rules.ts";
import { RunProxy } from "../../src/proxy/run-proxy.ts";
import { until } from "../support/until.ts";

/** Stands for DNS: every name is this machine, but those of public.test have a public address. */
const resolve = async (name: string): Promise<string[]> =>
  name.endsWith("public.test") ? ["192.0.2.1"] : ["127.0.0.1"];

let folder: string;
let web: ReturnType<typeof Bun.serve>;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "rnix-proxy-"));
  web = Bun.serve({
    port: 0,
    hostname: "127.0.0.1",
    fetch: async (request) =>
      new Response(
        `${request.method} ${new URL(request.url).pathname} ${request.headers.get("host")} ${await request.text()}`,
      ),
  });
});
afterAll(async () => {
  await web.stop(true);
  rmSync(folder, { recursive: true, force: true });
});

let count = 0;
async function open(...network: string[]) {
  count += 1;
  const path = join(folder, `${count}`);
  const reports: ConnectionReport[] = [];
  const proxy = await RunProxy.listen(path, await hostRules(network, resolve), (report) =>
    reports.push(report),
  );
  return { path, reports, [Symbol.dispose]: () => proxy.close() };
}

/** Sends the pieces one after another, each after an answer to the last, and returns all that came back. */
async function talk(path: string, ...pieces: (string | Buffer)[]): Promise<string> {
  const socket: Socket = connect(path);
  let answer = "";
  const { promise, resolve: closed } = Promise.withResolvers<void>();
  socket.on("data", (data) => {
    answer += data.toString("latin1");
    const next = pieces.shift();
    if (next !== undefined) socket.write(next);
  });
  socket.on("close", () => closed()).on("error", () => closed());
  socket.write(pieces.shift() ?? "");
  await promise;
  return answer;
}

test("only this user can open the socket", async () => {
  using proxy = await open("127.0.0.1");
  expect(statSync(proxy.path).mode & 0o777).toBe(0o600);
});

test("plain HTTP goes to the listed host, under its own name, and is reported", async () => {
  using proxy = await open("a.test", "127.0.0.1");
  const { port } = web;
  const answer = await talk(
    proxy.path,
    `POST http://a.test:${port}/x HTTP/1.1\r\nHost: other.test\r\nProxy-Authorization: Basic x\r\nContent-Length: 2\r\n\r\nhi`,
  );
  expect(answer).toContain(`POST /x a.test:${port} hi`);
  await until(() => proxy.reports.length === 1);
  expect(proxy.reports[0]).toMatchObject({ host: "a.test", port, address: "127.0.0.1", rule: "a.test" });
  expect(proxy.reports[0]?.sent).toBeGreaterThan(2);
  expect(proxy.reports[0]?.received).toBeGreaterThan(20);
});

test.each([
  ["a host that is not listed", "b.test", ["a.test", "127.0.0.1"], "it is not listed", "--network b.test"],
  [
    "a name of this machine whose address is not listed",
    "a.test",
    ["a.test"],
    "127.0.0.1 is not public",
    "--network 127.0.0.1",
  ],
  ["a network that is off", "a.test", ["off"], "it is not listed", "--network a.test"],
  ["an address by its parent", "127.0.0.1", ["*"], "it is not listed", "--network 127.0.0.1"],
])("%s is refused, by HTTP, CONNECT and SOCKS", async (_, host, network, why, remedy) => {
  using proxy = await open(...network);
  const { port = 0 } = web;
  const plain = await talk(proxy.path, `GET http://${host}:${port}/ HTTP/1.1\r\n\r\n`);
  expect(plain).toStartWith("HTTP/1.1 403 ");
  expect(plain).toContain(why);
  expect(plain).toContain(remedy);
  expect(await talk(proxy.path, `CONNECT ${host}:${port} HTTP/1.1\r\n\r\n`)).toStartWith("HTTP/1.1 403 ");
  expect(await talk(proxy.path, "\x05\x01\x00", socksTo(host, port))).toBe(
    "\x05\x00\x05\x02\0\x01\0\0\0\0\0\0",
  );
  expect(proxy.reports.map(({ refused }) => refused?.why)).toEqual(
    Array(3).fill(expect.stringContaining(why)),
  );
});

test("SOCKS5 and CONNECT reach a listed host on its port only", async () => {
  using proxy = await open(`a.test:${web.port}`, "127.0.0.1");
  const request = `GET /y HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n`;
  expect(await talk(proxy.path, "\x05\x01\x00", socksTo("a.test", web.port ?? 0), request)).toContain(
    "GET /y a.test",
  );
  expect(await talk(proxy.path, `CONNECT a.test:${web.port} HTTP/1.1\r\n\r\n`, request)).toContain(
    "GET /y a.test",
  );
  expect(await talk(proxy.path, "CONNECT a.test:1 HTTP/1.1\r\n\r\n")).toStartWith("HTTP/1.1 403 ");
});

function socksTo(host: string, port: number): Buffer {
  return Buffer.concat([
    Buffer.from([5, 1, 0, 3, host.length]),
    Buffer.from(host),
    Buffer.from([port >> 8, port & 255]),
  ]);
}

describe("a TLS name", () => {
  test.each([
    ["that was checked passes", "a.test", true],
    ["that differs ends the connection", "b.test", false],
  ])("%s", async (_, name, passes) => {
    let got = 0;
    const server = createServer((socket) => {
      socket.on("data", (data) => {
        got += data.length;
        socket.end();
      });
    }).listen(0, "127.0.0.1");
    await until(() => server.address() !== null);
    const { port } = server.address() as { port: number };
    using proxy = await open("*.test", "a.test", "127.0.0.1");
    await talk(proxy.path, `CONNECT a.test:${port} HTTP/1.1\r\n\r\n`, helloFor(name));
    await until(() => proxy.reports.length === 1);
    expect(got > 0).toBe(passes);
    if (!passes) expect(proxy.reports[0]?.refused?.why).toBe("its TLS name is b.test");
    server.close();
  });
});

/** A ClientHello with nothing but a server name, in two records. */
function helloFor(name: string): Buffer {
  const sized = (bytes: Buffer, width: number): Buffer => {
    const size = Buffer.alloc(width);
    size.writeUIntBE(bytes.length, 0, width);
    return Buffer.concat([size, bytes]);
  };
  const names = sized(Buffer.concat([Buffer.from([0]), sized(Buffer.from(name), 2)]), 2);
  const extensions = sized(Buffer.concat([Buffer.from([0, 0]), sized(names, 2)]), 2);
  const body = Buffer.concat([Buffer.alloc(34), Buffer.from([0, 0, 2, 19, 1, 1, 0]), extensions]);
  const message = Buffer.concat([Buffer.from([1]), sized(body, 3)]);
  const record = (part: Buffer): Buffer => Buffer.concat([Buffer.from([22, 3, 1]), sized(part, 2)]);
  return Buffer.concat([record(message.subarray(0, 9)), record(message.subarray(9))]);
}

test("a request without an end, and one that is none, are ended", async () => {
  using proxy = await open("a.test");
  expect(await talk(proxy.path, "x".repeat(40_000))).toBe("");
  expect(await talk(proxy.path, "GET / HTTP/1.1\r\n\r\n")).toStartWith("HTTP/1.1 400 ");
  expect(proxy.reports).toEqual([]);
});

test("a host that does not answer is reported as failed", async () => {
  using proxy = await open("127.0.0.1");
  expect(await talk(proxy.path, "GET http://127.0.0.1:1/ HTTP/1.1\r\n\r\n")).toStartWith("HTTP/1.1 502 ");
  expect(proxy.reports[0]?.failed).toBeString();
});

test("large answers pass whole, with a reader that is slow", async () => {
  using proxy = await open("127.0.0.1");
  const size = 8_000_000;
  const server = Bun.serve({ port: 0, hostname: "127.0.0.1", fetch: () => new Response("x".repeat(size)) });
  const answer = await talk(proxy.path, `GET http://127.0.0.1:${server.port}/ HTTP/1.1\r\n\r\n`);
  expect(answer.length).toBeGreaterThan(size);
  await server.stop(true);
});
