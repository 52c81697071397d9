/** MCP over HTTP on 127.0.0.1, for clients that have the token. */

import { timingSafeEqual } from "node:crypto";
import { WebStandardStreamableHTTPServerTransport } from "@modelcontextprotocol/sdk/server/webStandardStreamableHttp.js";
import { SyscallError } from "../../plugin/errors.ts";
import type { McpServer } from "./mcp-server.ts";

const MAX_BYTES = 32 * 1024 * 1024;
/** Clients that leave don't always end their session: the one that was used longest ago makes room. */
const MAX_SESSIONS = 32;

export class HttpEndpoint implements AsyncDisposable {
  readonly #mcp: McpServer;
  readonly #token: string;
  readonly #server: ReturnType<typeof Bun.serve>;
  /** In the order of their last request. */
  readonly #sessions = new Map<string, WebStandardStreamableHTTPServerTransport>();

  constructor(mcp: McpServer, { port, token }: { port: number; token: string }) {
    this.#mcp = mcp;
    this.#token = token;
    try {
      this.#server = Bun.serve({
        hostname: "127.0.0.1",
        port,
        idleTimeout: 0,
        maxRequestBodySize: MAX_BYTES,
        fetch: (request) => this.#answer(request),
      });
    } catch (cause) {
      throw new SyscallError("UNAVAILABLE", `Port ${port} of 127.0.0.1 is not free.`, { cause });
    }
  }

  get url(): string {
    return `http://127.0.0.1:${this.#server.port}/mcp`;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const transport of this.#sessions.values()) await transport.close();
    await this.#mcp.ended();
    await this.#server.stop(true);
  }

  async #answer(request: Request): Promise<Response> {
    if (!this.#isLocal(request)) return new Response("forbidden host or origin", { status: 403 });
    if (!isToken(request.headers.get("authorization"), this.#token))
      return new Response("unauthorized", { status: 401, headers: { "www-authenticate": "Bearer" } });
    if (new URL(request.url).pathname !== "/mcp") return new Response("not found", { status: 404 });
    const id = request.headers.get("mcp-session-id");
    if (id === null) return (await this.#begun()).handleRequest(request);
    const transport = this.#sessions.get(id);
    if (!transport) return new Response("unknown session", { status: 404 });
    this.#sessions.delete(id);
    this.#sessions.set(id, transport);
    return transport.handleRequest(request);
  }

  async #begun(): Promise<WebStandardStreamableHTTPServerTransport> {
    const transport = new WebStandardStreamableHTTPServerTransport({
      sessionIdGenerator: () => crypto.randomUUID(),
      onsessioninitialized: async (id) => {
        this.#sessions.set(id, transport);
        const [oldest] = this.#sessions.values();
        if (this.#sessions.size > MAX_SESSIONS) await oldest?.close();
      },
    });
    transport.onclose = () => {
      if (transport.sessionId !== undefined) this.#sessions.delete(transport.sessionId);
    };
    await this.#mcp.connection().connect(transport);
    return transport;
  }

  /** A page in the user's browser can reach this port, also by a name of its own that leads here. */
  #isLocal({ headers }: Request): boolean {
    const { port } = this.#server;
    const hosts = [`127.0.0.1:${port}`, `localhost:${port}`];
    const origin = headers.get("origin");
    const isOurs = origin === null || hosts.some((host) => origin === `http://${host}`);
    return isOurs && hosts.includes(headers.get("host") ?? "");
  }
}

function isToken(header: string | null, token: string): boolean {
  const given = Buffer.from(header ?? "");
  const right = Buffer.from(`Bearer ${token}`);
  return given.length === right.length && timingSafeEqual(given, right);
}
