/** The MCP server of `rnix mcp serve`: lists its tools and makes their calls, each over a session of its own. */

import { Server } from "@modelcontextprotocol/sdk/server/index.js";
import {
  CallToolRequestSchema,
  type CallToolResult,
  ErrorCode,
  ListToolsRequestSchema,
  McpError,
} from "@modelcontextprotocol/sdk/types.js";
import { z } from "zod";
import { messageOf } from "../../lib/error-detail.ts";
import { version } from "../../version.ts";
import { errorCodeOf } from "../exit.ts";
import { type Io, withSession } from "../io.ts";
import { type Served, type ServedTool, servedTools } from "./served-tools.ts";

/** Characters of a result's text; more fills the model's context. */
const MAX_TEXT = 100_000;

export class McpServer {
  readonly #io: Io;
  readonly #tools: ReadonlyMap<string, ServedTool>;
  readonly #running = new Set<Promise<unknown>>();

  constructor(io: Io, { answers }: { answers: boolean }) {
    this.#io = io;
    this.#tools = new Map(Object.entries(servedTools()).filter(([, tool]) => answers || !tool.answers));
  }

  /** A server for one more connection. */
  connection(): Server {
    const server = new Server({ name: "rnix", version }, { capabilities: { tools: {} } });
    server.setRequestHandler(ListToolsRequestSchema, () => ({
      tools: [...this.#tools].map(([name, { description, input, readOnly = false }]) => {
        const schema = z.toJSONSchema(input, { io: "input" });
        return {
          name,
          description,
          inputSchema: { ...schema, type: "object" as const },
          annotations: { readOnlyHint: readOnly },
        };
      }),
    }));
    server.setRequestHandler(CallToolRequestSchema, async ({ params }, { signal, sendNotification }) => {
      const tool = this.#tools.get(params.name);
      if (!tool) throw new McpError(ErrorCode.InvalidParams, `There is no tool ${params.name}`);
      const progressToken = params._meta?.progressToken;
      let count = 0;
      const progress = (message: string): void => {
        if (progressToken === undefined || signal.aborted) return;
        const update = { progressToken, progress: ++count, message };
        // The client may be gone meanwhile.
        void sendNotification({ method: "notifications/progress", params: update }).catch(() => undefined);
      };
      const made = withSession(this.#io, {}, (session) =>
        tool.run(params.arguments ?? {}, { io: this.#io, session, signal, progress }),
      ).then(result, failure);
      this.#running.add(made);
      return made.finally(() => this.#running.delete(made));
    });
    return server;
  }

  /** Resolves when all calls have ended, also those of clients that are gone: their runs are killed then. */
  async ended(): Promise<void> {
    await Promise.allSettled(this.#running);
  }
}

function result({ data, text = JSON.stringify(data), failed = false }: Served): CallToolResult {
  const left = text.length - MAX_TEXT;
  const shown = left > 0 ? `${text.slice(0, MAX_TEXT)}\n[${left} more characters]` : text;
  return { content: [{ type: "text", text: shown }], structuredContent: { ...data }, isError: failed };
}

function failure(error: unknown): CallToolResult {
  return { content: [{ type: "text", text: `${errorCodeOf(error)}: ${messageOf(error)}` }], isError: true };
}
