/**
 * An MCP server that misbehaves when its tool `go` is called, by hand: `bun hostile.ts hang|die|flood|huge|storm|ask`.
 * It keeps to the protocol until then.
 */
const how = process.argv[2] ?? "";
const GIB = 1024 ** 3;
const PIECE = "x".repeat(1024 * 1024);

const RESULTS: Record<string, object> = {
  initialize: {
    protocolVersion: "2025-06-18",
    capabilities: { tools: { listChanged: true }, prompts: {} },
    serverInfo: { name: "hostile", version: "1" },
  },
  "tools/list": { tools: [{ name: "go", inputSchema: { type: "object" } }] },
  "prompts/list": {
    prompts: [
      { name: "look\u001b[31m", description: "can't be typed" },
      { name: "look", description: "red:\u001b[31m and\nmore" },
    ],
  },
  ping: {},
};

/** Waits for the reader, so that this process does not hold what it writes. */
async function write(text: string): Promise<void> {
  if (!process.stdout.write(text)) await new Promise((resolve) => process.stdout.once("drain", resolve));
}

async function send(message: object): Promise<void> {
  await write(`${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`);
}

async function go(id: number): Promise<void> {
  switch (how) {
    case "die":
      process.stderr.write("out of memory\n");
      return process.exit(9);
    case "flood":
      for (;;) await write(PIECE);
    case "huge":
      await write(`{"jsonrpc":"2.0","id":${id},"result":{"content":[{"type":"text","text":"`);
      for (let sent = 0; sent < GIB; sent += PIECE.length) await write(PIECE);
      return write(`"}]}}\n`);
    case "storm":
      void storm();
      return send({ id, result: { content: [{ type: "text", text: "it rains" }] } });
    case "ask": {
      const params = { message: "Who are you?", requestedSchema: { type: "object", properties: {} } };
      for (let n = 0; n < 50_000; n++) await send({ id: `ask-${n}`, method: "elicitation/create", params });
      return send({ id, result: { content: [{ type: "text", text: "asked" }] } });
    }
  }
}

/** Reports changed tools as fast as it is read. */
async function storm(): Promise<void> {
  for (;;) {
    await send({ method: "notifications/tools/list_changed" });
    await new Promise((resolve) => setImmediate(resolve));
  }
}

for await (const line of console) {
  const { id, method, params } = JSON.parse(line);
  if (method === "tools/call" && params.name === "go") void go(id);
  else if (RESULTS[method]) await send({ id, result: RESULTS[method] });
  else if (method && id !== undefined)
    await send({ id, error: { code: -32_601, message: "no such method" } });
  if (method === "tools/list") process.stderr.write("listed\n");
}

export {};
