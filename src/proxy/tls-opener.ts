/** Opens TLS for the hosts to which secrets are bound: fills placeholders in requests, and hides the secrets in answers. */

import { rmSync } from "node:fs";
import { isIP } from "node:net";
import { join } from "node:path";
import { messageOf } from "../lib/error-detail.ts";
import { type BoundSecret, pathWithSecrets, withSecrets } from "./bound-secret.ts";
import type { RunAuthority } from "./certificates.ts";
import type { ConnectionReport } from "./connection-report.ts";

/** Hides the run's secrets in a text, and in bytes that come in pieces. */
export interface Redaction {
  hide(text: string): string;
  byteStream(): { push(piece: Uint8Array): Uint8Array; end(): Uint8Array };
}

interface OpenerOptions {
  authority: RunAuthority;
  /** A folder of this run alone, for sockets. */
  folder: string;
  redaction: Redaction;
  report(report: ConnectionReport): void;
  /** Further authorities of servers, for tests. */
  trusted?: string[];
}

/** One opened host, with a server of its own. */
interface OpenedHost {
  path: string;
  /** The checked address of the newest connection. */
  address: string;
  stop(): void;
}

/** A larger body is sent in pieces, without its length. */
const MAX_BUFFERED = 8 * 1024 ** 2;
const MAX_HOSTS = 32;
/** Of one connection (RFC 9110, 7.6.1), or computed from the body. */
const OWN_HEADERS = [
  ..."connection keep-alive proxy-authenticate proxy-authorization te trailer".split(" "),
  ..."transfer-encoding upgrade content-length content-encoding".split(" "),
];

export class TlsOpener {
  readonly #options: OpenerOptions;
  readonly #hosts = new Map<string, OpenedHost>();

  constructor(options: OpenerOptions) {
    this.#options = options;
  }

  /** The path of a socket that speaks TLS as this host. `address`: where its requests go. */
  open(host: string, port: number, address: string, secrets: readonly BoundSecret[]): string {
    const key = `${host}:${port}`;
    const known = this.#hosts.get(key);
    if (known) {
      known.address = address;
      return known.path;
    }
    if (this.#hosts.size >= MAX_HOSTS) throw new Error(`more than ${MAX_HOSTS} hosts with secrets`);
    const { authority, folder } = this.#options;
    const path = join(folder, `tls-${this.#hosts.size}`);
    const opened: OpenedHost = { path, address, stop: () => undefined };
    const server = Bun.serve({
      unix: path,
      tls: authority.certificateOf(host),
      maxRequestBodySize: Number.MAX_SAFE_INTEGER,
      fetch: (request) => this.#pass(request, { host, port, address: opened.address }, secrets),
    });
    opened.stop = () => void server.stop(true);
    this.#hosts.set(key, opened);
    return path;
  }

  /** Safe to call again. */
  close(): void {
    for (const { path, stop } of this.#hosts.values()) {
      stop();
      rmSync(path, { force: true });
    }
    this.#hosts.clear();
  }

  async #pass(
    request: Request,
    at: { host: string; port: number; address: string },
    secrets: readonly BoundSecret[],
  ): Promise<Response> {
    try {
      return this.#hidden(request, await this.#send(request, at, secrets));
    } catch (thrown) {
      const { host, port, address } = at;
      const failed = this.#options.redaction.hide(`${host}:${port} failed: ${messageOf(thrown)}`);
      this.#options.report({ host, port, address, failed });
      return new Response(`${failed}\n`, { status: 502 });
    }
  }

  async #send(
    request: Request,
    { host, port, address }: { host: string; port: number; address: string },
    secrets: readonly BoundSecret[],
  ): Promise<Response> {
    const { pathname, search } = new URL(request.url);
    const to = `https://${isIP(address) === 6 ? `[${address}]` : address}:${port}`;
    const headers = withSecrets(withoutOwn(request.headers), secrets);
    headers.set("host", port === 443 ? host : `${host}:${port}`);
    // A compressed answer could not be searched for secrets.
    headers.set("accept-encoding", "identity");
    const length = Number(request.headers.get("content-length") ?? Number.POSITIVE_INFINITY);
    const body = length <= MAX_BUFFERED ? await request.arrayBuffer() : request.body;
    const { trusted } = this.#options;
    const options: BunFetchRequestInit = {
      method: request.method,
      headers,
      ...(!["GET", "HEAD"].includes(request.method) && { body }),
      redirect: "manual",
      signal: request.signal,
      timeout: false,
      keepalive: false,
      tls: { serverName: host, rejectUnauthorized: true, ...(trusted && { ca: trusted }) },
    };
    return fetch(`${to}${pathWithSecrets(pathname + search, secrets)}`, options);
  }

  #hidden(request: Request, response: Response): Response {
    const { redaction } = this.#options;
    const headers = new Headers();
    for (const [name, value] of withoutOwn(response.headers)) headers.append(name, redaction.hide(value));
    const length = response.headers.get("content-length");
    if (request.method === "HEAD" && length !== null) headers.set("content-length", length);
    const { status, statusText } = response;
    return new Response(response.body?.pipeThrough(hiding(redaction)), { status, statusText, headers });
  }
}

function withoutOwn(headers: Headers): Headers {
  const kept = new Headers(headers);
  for (const name of OWN_HEADERS) kept.delete(name);
  return kept;
}

function hiding(redaction: Redaction): TransformStream<Uint8Array, Uint8Array> {
  const stream = redaction.byteStream();
  return new TransformStream({
    transform(piece, controller) {
      const shown = stream.push(piece);
      if (shown.length > 0) controller.enqueue(shown);
    },
    flush(controller) {
      const rest = stream.end();
      if (rest.length > 0) controller.enqueue(rest);
    },
  });
}
