/** The proxy of one run: connects its programs to the hosts that its network lists, and reports each connection. */

import { chmodSync } from "node:fs";
import { connect, createServer, isIP, type Server, type Socket } from "node:net";
import { messageOf } from "../lib/error-detail.ts";
import type { BoundSecret } from "./bound-secret.ts";
import { type Hello, readHello } from "./client-hello.ts";
import { type ConnectionReport, refusalText } from "./connection-report.ts";
import { type Decision, type HostRules, namesHost } from "./host-rules.ts";
import { type ProxyRequest, readProxyRequest } from "./proxy-request.ts";
import { SocketReader } from "./socket-reader.ts";
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

  private constructor(
    rules: HostRules,
    report: (report: ConnectionReport) => void,
    bound: BoundHosts | undefined,
  ) {
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
      return await dialOne(host, port);
    } catch (thrown) {
      last = thrown;
    }
  }
  throw last;
}

function dialOne(host: string, port: number): Promise<Socket> {
  return connected(connect({ host, port, allowHalfOpen: true }), `${host}:${port}`);
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
