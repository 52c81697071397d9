import { appendFileSync, existsSync } from "node:fs";
import { McpServer } from "@modelcontextprotocol/sdk/server/mcp.js";
import { z } from "zod";

/** A server with one tool for each way in which a tool can behave. */
export function testServer(): McpServer {
  const server = new McpServer({ name: "test", version: "1.0.0" }, { capabilities: { logging: {} } });
  const text = (said: string) => ({ content: [{ type: "text" as const, text: said }] });

  server.registerTool(
    "echo",
    {
      description: "Answers its input",
      inputSchema: { text: z.string(), op: z.string().optional() },
      annotations: { readOnlyHint: true, idempotentHint: true },
    },
    async (input) => text(JSON.stringify(input)),
  );
  server.registerTool("env", { inputSchema: { name: z.string() } }, async ({ name }) =>
    text(process.env[name] ?? "(none)"),
  );
  server.registerTool("fail", { description: "Fails" }, async () => ({
    isError: true,
    content: [{ type: "text" as const, text: "the disk is full" }],
  }));
  server.registerTool("big", { inputSchema: { bytes: z.number() } }, async ({ bytes }) =>
    text("x".repeat(bytes)),
  );
  server.registerTool("picture", {}, async () => ({
    content: [
      { type: "text" as const, text: "a dot" },
      { type: "image" as const, mimeType: "image/png", data: Buffer.from("PNG!").toString("base64") },
    ],
  }));
  server.registerTool("table", { outputSchema: { rows: z.number() } }, async () => ({
    content: [],
    structuredContent: { rows: 7 },
  }));
  server.registerTool("slow", {}, async ({ signal, sendNotification, _meta }) => {
    if (_meta?.progressToken !== undefined) {
      const params = { progressToken: _meta.progressToken, progress: 1, total: 3, message: "still at it" };
      await sendNotification({ method: "notifications/progress", params });
    }
    await new Promise((resolve) => signal.addEventListener("abort", resolve, { once: true }));
    process.stderr.write("slow was cancelled\n");
    return text("too late");
  });
  // Notes each call's key. The first call of all does not answer.
  server.registerTool("keyed", { annotations: { idempotentHint: true } }, async ({ signal, _meta }) => {
    const file = process.env.KEYS ?? "/dev/null";
    const isFirst = !existsSync(file);
    const { traceparent } = _meta ?? {};
    appendFileSync(file, `${_meta?.["rnix/call"]}${traceparent === undefined ? "" : ` ${traceparent}`}\n`);
    if (isFirst) await new Promise((resolve) => signal.addEventListener("abort", resolve, { once: true }));
    return text("noted");
  });
  server.registerTool("grow", { description: "Adds a tool" }, async () => {
    server.registerTool("grown", { description: "It was added" }, async () => text("I am new"));
    return text("grown");
  });
  server.registerTool("ask", {}, async () => {
    const requestedSchema = {
      type: "object" as const,
      properties: {
        name: { type: "string" as const, title: "Name" },
        age: { type: "integer" as const, description: "in years" },
        colour: { type: "string" as const, enum: ["red", "green"] },
        sure: { type: "boolean" as const },
      },
      required: ["name"],
    };
    const { action, content } = await server.server.elicitInput({ message: "Who are you?", requestedSchema });
    return text(`the user answered with ${action}${content ? ` ${JSON.stringify(content)}` : ""}`);
  });
  // Without a look at what the client offers.
  server.registerTool("think", {}, async ({ sendRequest }) => {
    const messages = [{ role: "user" as const, content: { type: "text" as const, text: "think" } }];
    const params = { messages, maxTokens: 10 };
    const request = { method: "sampling/createMessage" as const, params };
    return sendRequest(request, z.looseObject({ content: z.object({ text: z.string() }) })).then(
      ({ content }) => text(`the model thinks: ${content.text}`),
      (error: Error) => text(`no model: ${error.message}`),
    );
  });
  server.registerTool("die", {}, async () => {
    process.stderr.write("something broke\n");
    process.exit(3);
  });
  server.registerTool("a.b", { description: "Has a dot in its name" }, async () => text("dotted"));
  server.registerResource("notes", "file:///notes.txt", { description: "Notes" }, async (uri) => ({
    contents: [{ uri: uri.href, text: "remember the milk" }],
  }));
  server.registerPrompt(
    "summary",
    {
      description: "Summarizes the notes",
      argsSchema: { topic: z.string().optional(), style: z.string().optional() },
    },
    ({ topic = "everything", style = "short" }) => ({
      messages: [{ role: "user", content: { type: "text", text: `Summarize ${topic}, ${style}.` } }],
    }),
  );
  return server;
}
