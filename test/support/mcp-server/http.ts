import { WebStandardStreamableHTTPServerTransport } from "@modelcontextprotocol/sdk/server/webStandardStreamableHttp.js";
import { testServer } from "./tools.ts";

/** The same server over HTTP, in this process: sessions, an Authorization header where one is wanted. */
export class HttpMcpServer implements AsyncDisposable {
  readonly #sessions = new Map<string, WebStandardStreamableHTTPServerTransport>();
  readonly #server: ReturnType<typeof Bun.serve>;
  /** Answer every request with this status instead. */
  refuse: number | undefined;
  ended = 0;
  /** Requests that have come. */
  asked = 0;

  constructor(authorization?: string) {
    this.#server = Bun.serve({
      port: 0,
      hostname: "127.0.0.1",
      idleTimeout: 0,
      fetch: async (request) => {
        this.asked++;
        if (new URL(request.url).pathname === "/moved") return Response.redirect("/mcp", 307);
        if (this.refuse !== undefined) return new Response("refused", { status: this.refuse });
        if (authorization !== undefined && request.headers.get("authorization") !== authorization) {
          return new Response("who are you?", { status: 401 });
        }
        return this.#answer(request);
      },
    });
  }

  get url(): string {
    return `http://127.0.0.1:${this.#server.port}/mcp`;
  }

  /** Sends on to the right one. */
  get oldUrl(): string {
    return `http://127.0.0.1:${this.#server.port}/moved`;
  }

  get sessions(): number {
    return this.#sessions.size;
  }

  /** As after a restart: it knows no session any more. */
  forget(): void {
    this.#sessions.clear();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all([...this.#sessions.values()].map((session) => session.close()));
    await this.#server.stop(true);
  }

  async #answer(request: Request): Promise<Response> {
    const id = request.headers.get("mcp-session-id");
    const known = id === null ? undefined : this.#sessions.get(id);
    if (known) return known.handleRequest(request);
    if (id !== null) return new Response("no such session", { status: 404 });
    const transport = new WebStandardStreamableHTTPServerTransport({
      sessionIdGenerator: () => crypto.randomUUID(),
      onsessioninitialized: (session) => void this.#sessions.set(session, transport),
      onsessionclosed: (session) => {
        this.#sessions.delete(session);
        this.ended++;
      },
    });
    await testServer().connect(transport);
    return transport.handleRequest(request);
  }
}
