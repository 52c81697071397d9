/** The proxy of one run: connects its programs to the hosts that its network lists, and reports each connection. */

import { chmodSync } from "node:fs";
import { connect, createServer, isIP, type Server, type Socket } from "node:net";
import { messageOf } from "../lib/error-detail.ts";
import type { BoundSecret } from "./bound-secret.ts";
import { type Hello, readHello } from "./client-hello.ts";
import { type ConnectionReport, refusalText } from "./connection-report.ts";
import { type Decision, type HostRules, namesHost } from "./host-rules.ts";
import type { TlsOpener } from "./tls-opener.ts";

const MAX_CONNECTIONS = 256;
const DIAL_MS = 20_000;
const IDLE_MS = 10 * 60_000;
const HELLO_MS = 10_000;
const MAX_HELLO = 80 * 1024;

const TLS_PORT = 443;

/** Secrets, and what opens TLS for their hosts. */
export interface BoundHosts {
  secrets: readonly BoundSecret[];
  opener: Pick<TlsOpener, "open">;
}

export class RunProxy {
  readonly #server: Server;
  readonly #rules: HostRules;
  readonly #report: (report: ConnectionReport) => void;
  readonly #open = new Set<Socket>();
  readonly #bound: BoundHosts | undefined;

  private constructor(rules: HostRules, report: (report: ConnectionReport) => void, bound?: BoundHosts) {
    this.#rules = rules;
    this.#report = report;
    this.#bound = bound;
    this.#server = createServer({ allowHalfOpen: true }, (socket) => this.#accept(socket));
  }

  /** Listens on a socket at `path`, which only this user can open. */
  static async listen(
    path: string,
    rules: HostRules,
    report: (report: ConnectionReport) => void,
    bound?: BoundHosts,
  ): Promise<RunProxy> {
    const proxy = new RunProxy(rules, report, bound);
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    proxy.#server.once("error", reject).listen(path, resolve);
    await promise;
    chmodSync(path, 0o600);
    return proxy;
  }

  /** Ends all connections. Safe to call again. */
  close(): void {
    this.#server.close();
    for (const socket of this.#open) socket.destroy();
  }

  #accept(socket: Socket): void {
    if (this.#open.size >= 2 * MAX_CONNECTIONS) {
      socket.destroy();
      return;
    }
    this.#track(socket);
    // A client that sends no request, or breaks it off, made no connection.
    this.#serve(socket).catch(() => socket.destroySoon());
  }

  #track(socket: Socket): void {
    this.#open.add(socket);
    socket.setTimeout(IDLE_MS, () => socket.destroy());
    socket.on("error", () => socket.destroy()).on("close", () => this.#open.delete(socket));
  }

  async #serve(socket: Socket): Promise<void> {
    const reader = new SocketReader(socket);
    const request = await readProxyRequest(socket, reader);
    const { host, port } = request;
    const report: ConnectionReport = { host, port, sent: 0, received: 0 };
    const fail = (failed: string): void => {
      this.#report({ ...report, failed });
      request.refuse(502, failed);
    };
    let decision: Decision;
    try {
      decision = await this.#rules.decide(host, port);
    } catch (thrown) {
      fail(messageOf(thrown));
      return;
    }
    if (!decision.allowed) {
      report.refused = decision;
      this.#report(report);
      request.refuse(403, refusalText(report));
      return;
    }
    report.rule = decision.rule;
    const upstream = await dial(decision.addresses, port).catch((thrown: unknown) => messageOf(thrown));
    if (typeof upstream === "string") {
      fail(upstream);
      return;
    }
    report.address = upstream.remoteAddress;
    const opened = request.head === undefined ? await this.#opened(request, upstream, report) : upstream;
    this.#track(opened);
    await this.#join(request, reader, { socket, upstream: opened, report });
  }

  /** In place of the server itself, where secrets are bound to it: what opens TLS. */
  async #opened({ host, port }: ProxyRequest, upstream: Socket, report: ConnectionReport): Promise<Socket> {
    const secrets = this.#bound?.secrets.filter(({ hosts }) => namesHost(hosts, host, port, TLS_PORT)) ?? [];
    const { remoteAddress } = upstream;
    if (!this.#bound || secrets.length === 0 || remoteAddress === undefined) return upstream;
    upstream.destroy();
    report.secrets = secrets.map(({ name }) => name);
    const path = this.#bound.opener.open(host.toLowerCase().replace(/\.$/, ""), port, remoteAddress, secrets);
    return await connected(connect({ path, allowHalfOpen: true }), path);
  }

  /** Sends both ways until both have ended. A TLS name that differs from the checked one ends the connection. */
  async #join(
    request: ProxyRequest,
    reader: SocketReader,
    { socket, upstream, report }: { socket: Socket; upstream: Socket; report: ConnectionReport },
  ): Promise<void> {
    const done = (): void => {
      socket.destroySoon();
      this.#report({ ...report, sent: upstream.bytesWritten, received: upstream.bytesRead });
    };
    upstream.once("close", done);
    socket.once("close", () => upstream.destroy());
    request.accept();
    upstream.pipe(socket);
    if (request.head !== undefined) upstream.write(request.head, "latin1");
    else {
      const why = await wrongName(request.host, reader);
      if (why !== null) {
        report.rule = undefined;
        report.refused = { why };
        upstream.destroy();
        return;
      }
    }
    const rest = reader.rest();
    if (rest.length > 0) upstream.write(rest);
    socket.pipe(upstream);
  }
}

/** Why the name in a TLS ClientHello is not the one that was checked; null: it is, or this is not TLS. */
async function wrongName(host: string, reader: SocketReader): Promise<string | null> {
  const hello = await firstHello(reader);
  if (hello === "other") return null;
  if (typeof hello === "string") return "its TLS ClientHello can't be read";
  const { name } = hello;
  if (name === null || isIP(host) !== 0 || name === host.toLowerCase().replace(/\.$/, "")) return null;
  return `its TLS name is ${name}`;
}

async function firstHello(reader: SocketReader): Promise<Hello> {
  // The server may speak first: the first byte has no deadline of its own.
  await reader.take(() => 0, MAX_HELLO);
  let hello: Hello = "more";
  const decide = (bytes: Buffer): number | null => {
    hello = readHello(bytes);
    return hello === "more" ? null : 0;
  };
  await reader.take(decide, MAX_HELLO, HELLO_MS);
  return hello;
}

/** Connects to the first address that answers. The addresses were checked: no name is resolved here. */
async function dial(addresses: readonly string[], port: number): Promise<Socket> {
  let last: unknown = new Error("no address");
  for (const host of addresses) {
    try {
      return await connected(connect({ host, port, allowHalfOpen: true }), `${host}:${port}`);
    } catch (thrown) {
      last = thrown;
    }
  }
  throw last;
}

function connected(socket: Socket, name: string): Promise<Socket> {
  const { promise, resolve, reject } = Promise.withResolvers<Socket>();
  const timer = setTimeout(() => socket.destroy(new Error(`${name} did not answer`)), DIAL_MS);
  socket.once("connect", () => resolve(socket)).once("error", reject);
  return promise.finally(() => {
    clearTimeout(timer);
    socket.off("error", reject);
  });
}

interface ProxyRequest {
  host: string;
  port: number;
  /** What the server gets first: the head of a plain HTTP request. Absent: a tunnel. */
  head?: string;
  accept(): void;
  /** `status` is of HTTP; SOCKS has a code for each. */
  refuse(status: 400 | 403 | 502, text: string): void;
}

const MAX_HEAD = 32 * 1024;
const HEAD_MS = 10_000;

async function readProxyRequest(socket: Socket, reader: SocketReader): Promise<ProxyRequest> {
  const first = await reader.take((bytes) => (bytes[0] === SOCKS ? 1 : headEnd(bytes)), MAX_HEAD, HEAD_MS);
  return first[0] === SOCKS ? readSocks(socket, reader) : readHttp(socket, first.toString("latin1"));
}

function headEnd(bytes: Buffer): number | null {
  const at = bytes.indexOf("\r\n\r\n");
  return at < 0 ? null : at + 4;
}

function readHttp(socket: Socket, head: string): ProxyRequest {
  const [line = "", ...headers] = head.trimEnd().split("\r\n");
  const [method = "", target = ""] = line.split(" ");
  const refuse: ProxyRequest["refuse"] = (status, text) => {
    const body = `${text}\n`;
    const reason = { 400: "Bad Request", 403: "Forbidden", 502: "Bad Gateway" }[status];
    const fields = `content-type: text/plain; charset=utf-8\r\ncontent-length: ${Buffer.byteLength(body)}\r\nconnection: close`;
    socket.end(`HTTP/1.1 ${status} ${reason}\r\nx-proxy-error: refused-by-rnix\r\n${fields}\r\n\r\n${body}`);
  };
  const isTunnel = method === "CONNECT";
  const url = URL.parse(isTunnel ? `http://${target}` : target);
  if (url === null || url.protocol !== "http:" || url.hostname === "") {
    refuse(
      400,
      `Expected CONNECT HOST:PORT or an http:// address, got ${JSON.stringify(line.slice(0, 200))}.`,
    );
    throw new Error("no request of a proxy");
  }
  const at = { host: url.hostname.replace(/^\[|\]$/g, ""), port: Number(url.port || 80), refuse };
  if (isTunnel)
    return { ...at, accept: () => void socket.write("HTTP/1.1 200 Connection established\r\n\r\n") };
  const passed = headers.filter((header) => !/^(?:host|connection|keep-alive|proxy-[^:]*)\s*:/i.test(header));
  const own = [`${method} ${url.pathname}${url.search} HTTP/1.1`, `Host: ${url.host}`, "Connection: close"];
  return { ...at, head: `${[...own, ...passed].join("\r\n")}\r\n\r\n`, accept() {} };
}

const SOCKS = 5;
const SOCKS_CODE = { 400: 7, 403: 2, 502: 4 } as const;

/** RFC 1928, without authentication and with the command CONNECT only. */
async function readSocks(socket: Socket, reader: SocketReader): Promise<ProxyRequest> {
  const take = (length: number): Promise<Buffer> => reader.take(() => length, MAX_HEAD, HEAD_MS);
  const [methods = 0] = await take(1);
  await take(methods);
  socket.write(Buffer.from([SOCKS, 0]));
  const [, command, , kind] = await take(4);
  const reply = (code: number): Buffer => Buffer.from([SOCKS, code, 0, 1, 0, 0, 0, 0, 0, 0]);
  const host = await readSocksHost(kind, take);
  const port = (await take(2)).readUInt16BE(0);
  const refuse: ProxyRequest["refuse"] = (status) => void socket.end(reply(SOCKS_CODE[status]));
  if (command !== 1 || host === null) {
    refuse(400, "");
    throw new Error("an unknown request of SOCKS");
  }
  return { host, port, refuse, accept: () => void socket.write(reply(0)) };
}

async function readSocksHost(
  kind: number | undefined,
  take: (length: number) => Promise<Buffer>,
): Promise<string | null> {
  if (kind === 1) return (await take(4)).join(".");
  if (kind === 3) return (await take((await take(1)).readUInt8(0))).toString("latin1");
  if (kind !== 4) return null;
  const bytes = await take(16);
  return Array.from({ length: 8 }, (_, at) => bytes.readUInt16BE(at * 2).toString(16)).join(":");
}

/** What was read so far decides: the number of bytes to take, or null for more. */
type Enough = (bytes: Buffer) => number | null;

/** Reads the beginning of a connection piece by piece, with a limit and a deadline. */
class SocketReader {
  readonly #socket: Socket;
  #bytes: Buffer = Buffer.alloc(0);

  constructor(socket: Socket) {
    this.#socket = socket;
    socket.pause();
  }

  /** What was received and not taken. */
  rest(): Buffer {
    const rest = this.#bytes;
    this.#bytes = Buffer.alloc(0);
    return rest;
  }

  /** Takes bytes from the beginning. Fails at the end of the stream, beyond `limit` bytes, or after `ms`. */
  async take(enough: Enough, limit: number, ms?: number): Promise<Buffer> {
    for (;;) {
      const length = this.#bytes.length === 0 ? null : enough(this.#bytes);
      if (length !== null && length <= this.#bytes.length) {
        const taken = this.#bytes.subarray(0, length);
        this.#bytes = this.#bytes.subarray(length);
        return taken;
      }
      if (this.#bytes.length > limit) throw new Error(`more than ${limit} bytes came before the request`);
      this.#bytes = Buffer.concat([this.#bytes, await this.#next(ms)]);
    }
  }

  #next(ms: number | undefined): Promise<Buffer> {
    const socket = this.#socket;
    const { promise, resolve, reject } = Promise.withResolvers<Buffer>();
    const ended = (): void => reject(new Error("the connection ended before its request"));
    const timer =
      ms === undefined ? undefined : setTimeout(() => reject(new Error(`nothing came within ${ms} ms`)), ms);
    socket.on("data", resolve).on("end", ended).on("close", ended).on("error", reject).resume();
    return promise.finally(() => {
      clearTimeout(timer);
      socket.pause();
      socket.off("data", resolve).off("end", ended).off("close", ended).off("error", reject);
    });
  }
}
