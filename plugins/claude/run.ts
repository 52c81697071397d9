/** One program `claude -p`, from its start to its end. */

import { randomBytes, timingSafeEqual } from "node:crypto";
import { Server } from "@modelcontextprotocol/sdk/server/index.js";
import { WebStandardStreamableHTTPServerTransport } from "@modelcontextprotocol/sdk/server/webStandardStreamableHttp.js";
import {
  CallToolRequestSchema,
  type CallToolResult,
  ListToolsRequestSchema,
  type ServerNotification,
} from "@modelcontextprotocol/sdk/types.js";
import type { LLMEvent, OpenContext, ToolDef, ToolService } from "rnix/plugin";
import { settledWithin } from "../_lib/within.ts";
import { CliRun, type Program } from "../_model/cli-run.ts";
import { type Endpoint, SERVER } from "./program.ts";
import { Stream } from "./stream.ts";

/** How long a call waits until its id is read from the stream. */
const ID_WAIT_MS = 2_000;

/** One `claude -p` with the endpoint that serves its tools. Both are gone when `end` resolves. */
export class Run {
  readonly #run: CliRun;
  /** Ids of tool calls that were read from the stream, and the calls that wait for theirs. */
  readonly #seen = new Set<string>();
  readonly #waiting = new Map<string, () => void>();
  #endpoint: ToolEndpoint | undefined;
  #ended = false;

  constructor(context: OpenContext, signal: AbortSignal) {
    const stream = new Stream((id) => this.#onId(id));
    this.#run = new CliRun(context, signal, stream, () => this.#close());
  }

  /** Starts it. The events end with `stop`, or throw. */
  start(
    tools: ToolService | undefined,
    program: (endpoint: Endpoint | undefined) => Program,
  ): Promise<AsyncIterable<LLMEvent>> {
    if (tools) this.#endpoint = new ToolEndpoint(tools, { untilIdRead: (id) => this.#untilIdRead(id) });
    return this.#run.start(program(this.#endpoint));
  }

  end(): Promise<void> {
    return this.#run.end();
  }

  async #close(): Promise<void> {
    this.#ended = true;
    for (const resolve of this.#waiting.values()) resolve();
    await this.#endpoint?.[Symbol.asyncDispose]();
  }

  /** A call arrives by HTTP, maybe before the stream has announced it: it waits until the stream was read that far. */
  async #untilIdRead(id: string | undefined): Promise<void> {
    if (id === undefined || this.#seen.has(id) || this.#ended) return;
    const read = Promise.withResolvers<void>();
    this.#waiting.set(id, read.resolve);
    await settledWithin(read.promise, ID_WAIT_MS);
    this.#waiting.delete(id);
  }

  #onId(id: string): void {
    this.#seen.add(id);
    this.#waiting.get(id)?.();
  }
}

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
class ToolEndpoint implements AsyncDisposable {
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
