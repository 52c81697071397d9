/** The MCP endpoint on loopback by which the Claude Code CLI calls the tools of a process. */

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

/** Time between two progress notifications of a running call, so that neither side takes silence for its end. */
const PROGRESS_MS = 20_000;
/** Bytes of one request: tool input that a model has written. */
const MAX_BYTES = 32 * 1024 * 1024;

interface CallOrder {
  /** Resolves when everything that the program printed before this call has been read. */
  untilIdRead(toolUseId: string | undefined): Promise<void>;
}

/**
 * The process's tools as an MCP server (streamable HTTP) on 127.0.0.1, for the one program that knows the token. It has
 * no sessions: each request stands alone.
 */
export class ToolEndpoint implements AsyncDisposable {
  readonly token = randomBytes(32).toString("hex");
  readonly #tools: ToolService;
  readonly #order: CallOrder;
  readonly #server: ReturnType<typeof Bun.serve>;

  constructor(tools: ToolService, order: CallOrder) {
    this.#tools = tools;
    this.#order = order;
    this.#server = Bun.serve({
      hostname: "127.0.0.1",
      port: 0,
      idleTimeout: 0,
      maxRequestBodySize: MAX_BYTES,
      fetch: (request) => this.#answer(request),
    });
  }

  get url(): string {
    return `http://127.0.0.1:${this.#server.port}/mcp`;
  }

  /** Ends every connection, also those of running calls. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.#server.stop(true);
  }

  async #answer(request: Request): Promise<Response> {
    if (!isToken(request.headers.get("authorization"), this.token)) {
      return new Response("unauthorized", { status: 401, headers: { "www-authenticate": "Bearer" } });
    }
    // There are no notifications to subscribe to.
    if (request.method !== "POST") return new Response(null, { status: 405, headers: { allow: "POST" } });
    const transport = new WebStandardStreamableHTTPServerTransport({ sessionIdGenerator: undefined });
    const server = new Server({ name: SERVER, version: "1" }, { capabilities: { tools: {} } });
    server.setRequestHandler(ListToolsRequestSchema, async () => ({
      tools: (await this.#tools.list()).map(mcpTool),
    }));
    server.setRequestHandler(CallToolRequestSchema, ({ params }, { sendNotification }) => {
      const { progressToken, "claudecode/toolUseId": id } = params._meta ?? {};
      const progress = (count: number): ServerNotification => ({
        method: "notifications/progress",
        params: { progressToken: progressToken ?? 0, progress: count },
      });
      const notify = progressToken === undefined ? undefined : (n: number) => sendNotification(progress(n));
      return this.#call(params.name, params.arguments ?? {}, typeof id === "string" ? id : undefined, notify);
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
    await this.#order.untilIdRead(id);
    let count = 0;
    // The client may be gone meanwhile.
    const timer = setInterval(() => void progress?.(++count).catch(() => undefined), PROGRESS_MS);
    try {
      const { text, error } = await this.#tools.call(name, input);
      return { content: [{ type: "text", text }], isError: error !== undefined };
    } finally {
      clearInterval(timer);
    }
  }
}

function mcpTool({ name, description, input, annotations }: ToolDef) {
  return { name, description, inputSchema: { ...input, type: "object" as const }, annotations };
}

function isToken(header: string | null, token: string): boolean {
  const given = Buffer.from(header ?? "");
  const right = Buffer.from(`Bearer ${token}`);
  return given.length === right.length && timingSafeEqual(given, right);
}
