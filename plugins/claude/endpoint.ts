import { randomBytes, timingSafeEqual } from "node:crypto";
import { Server } from "@modelcontextprotocol/sdk/server/index.js";
import { WebStandardStreamableHTTPServerTransport } from "@modelcontextprotocol/sdk/server/webStandardStreamableHttp.js";
import {
  CallToolRequestSchema,
  type CallToolResult,
  ListToolsRequestSchema,
  type ServerNotification,
} from "@modelcontextprotocol/sdk/types.js";
import type { ToolDef, ToolService } from "rnix/plugin";
import { SERVER } from "./program.ts";

/** While a call is under way, so often a word that it is: neither side then takes the silence for an end. */
const PROGRESS_MS = 20_000;
/** Of one request: tool input that a model has written. */
const MOST_BYTES = 32 * 1024 * 1024;

/** What is told around a call. */
interface CallEvents {
  /** Resolves when everything the program has said before this call has been read. */
  reached(toolUseId: string | undefined): Promise<void>;
}

/**
 * The process's tools as an MCP server (streamable HTTP) on 127.0.0.1, for the one program that knows the token. It
 * keeps no sessions: each request is answered for itself.
 */
export class ToolEndpoint implements AsyncDisposable {
  readonly token = randomBytes(32).toString("hex");
  readonly #tools: ToolService;
  readonly #events: CallEvents;
  readonly #server: ReturnType<typeof Bun.serve>;

  constructor(tools: ToolService, events: CallEvents) {
    this.#tools = tools;
    this.#events = events;
    this.#server = Bun.serve({
      hostname: "127.0.0.1",
      port: 0,
      idleTimeout: 0,
      maxRequestBodySize: MOST_BYTES,
      fetch: (request) => this.#answer(request),
    });
  }

  get url(): string {
    return `http://127.0.0.1:${this.#server.port}/mcp`;
  }

  /** Ends every connection, also of calls that are under way. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.#server.stop(true);
  }

  async #answer(request: Request): Promise<Response> {
    if (!isToken(request.headers.get("authorization"), this.token)) {
      return new Response("unauthorized", { status: 401, headers: { "www-authenticate": "Bearer" } });
    }
    // There is nothing to be told but answers.
    if (request.method !== "POST") return new Response(null, { status: 405, headers: { allow: "POST" } });
    const transport = new WebStandardStreamableHTTPServerTransport({ sessionIdGenerator: undefined });
    const server = new Server({ name: SERVER, version: "1" }, { capabilities: { tools: {} } });
    server.setRequestHandler(ListToolsRequestSchema, async () => ({
      tools: (await this.#tools.list()).map(asTold),
    }));
    server.setRequestHandler(CallToolRequestSchema, ({ params }, { sendNotification }) => {
      const { progressToken, "claudecode/toolUseId": id } = params._meta ?? {};
      const progress = (count: number): ServerNotification => ({
        method: "notifications/progress",
        params: { progressToken: progressToken ?? 0, progress: count },
      });
      const tell = progressToken === undefined ? undefined : (n: number) => sendNotification(progress(n));
      return this.#call(params.name, params.arguments ?? {}, typeof id === "string" ? id : undefined, tell);
    });
    await server.connect(transport);
    return transport.handleRequest(request);
  }

  async #call(
    name: string,
    input: Record<string, unknown>,
    id: string | undefined,
    progress: ((count: number) => Promise<void>) | undefined,
  ): Promise<CallToolResult> {
    await this.#events.reached(id);
    let told = 0;
    // Who has gone meanwhile is told nothing.
    const timer = setInterval(() => void progress?.(++told).catch(() => undefined), PROGRESS_MS);
    try {
      const { text, error } = await this.#tools.call(name, input);
      return { content: [{ type: "text", text }], isError: error !== undefined };
    } finally {
      clearInterval(timer);
    }
  }
}

function asTold({ name, description, input, annotations }: ToolDef) {
  return { name, description, inputSchema: { ...input, type: "object" as const }, annotations };
}

function isToken(header: string | null, token: string): boolean {
  const given = Buffer.from(header ?? "");
  const right = Buffer.from(`Bearer ${token}`);
  return given.length === right.length && timingSafeEqual(given, right);
}
