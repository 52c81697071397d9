import { expect, test } from "bun:test";
import anthropic from "../../plugins/anthropic.ts";
import { ask, openModel } from "../support/model-server/device.ts";

/** An answer in whose middle the provider's own tools have run, as Anthropic's MCP connector has it. */
const BLOCKS = [
  { type: "thinking", thinking: "hm", signature: "signed" },
  { type: "text", text: "I look." },
  { type: "mcp_tool_use", id: "mcptoolu_1", name: "look", server_name: "docs", input: { at: "x" } },
  {
    type: "mcp_tool_result",
    tool_use_id: "mcptoolu_1",
    is_error: false,
    content: [{ type: "text", text: "found" }],
  },
  { type: "text", text: "There is more." },
];

const USAGE = { input_tokens: 1, output_tokens: 1 };
const HEAD = { id: "m", type: "message", role: "assistant", model: "scripted", stop_sequence: null };

function whole(): Response {
  return Response.json({ ...HEAD, content: BLOCKS, stop_reason: "pause_turn", usage: USAGE });
}

function streamed(): Response {
  const events: { type: string; [more: string]: unknown }[] = [
    { type: "message_start", message: { ...HEAD, content: [], stop_reason: null, usage: USAGE } },
  ];
  for (const [index, block] of BLOCKS.entries()) {
    const { text, thinking, signature } = {
      text: undefined,
      thinking: undefined,
      signature: undefined,
      ...block,
    };
    const start = { ...block, ...(text && { text: "" }), ...(thinking && { thinking: "", signature: "" }) };
    events.push({ type: "content_block_start", index, content_block: start });
    const delta = (more: object) => events.push({ type: "content_block_delta", index, delta: more });
    if (text)
      for (const piece of [text.slice(0, 3), text.slice(3)]) delta({ type: "text_delta", text: piece });
    if (thinking) delta({ type: "thinking_delta", thinking });
    if (signature) delta({ type: "signature_delta", signature });
    events.push({ type: "content_block_stop", index });
  }
  events.push(
    { type: "message_delta", delta: { stop_reason: "pause_turn", stop_sequence: null }, usage: USAGE },
    { type: "message_stop" },
  );
  const body = events.map((event) => `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`).join("");
  return new Response(body, { headers: { "content-type": "text/event-stream" } });
}

test.each([true, false])(
  "a paused turn is sent back to its model unchanged, block by block (streamed: %p)",
  async (stream) => {
    const bodies: { messages: { role: string; content: unknown }[] }[] = [];
    const server = Bun.serve({
      port: 0,
      hostname: "127.0.0.1",
      fetch: async (request) => {
        bodies.push(JSON.parse(await request.text()));
        return stream ? streamed() : whole();
      },
    });
    try {
      const file = await openModel(anthropic, "/dev/llm/anthropic", {
        base_url: `http://127.0.0.1:${server.port}`,
        extra: { mcpServers: [{ type: "url", name: "docs", url: "https://docs.example.com/mcp" }] },
      });
      const { answer } = await ask(file, { stream });
      expect(answer).toMatchObject({
        content: "I look.There is more.",
        // What the provider has run itself is no call of the process.
        tool_calls: [],
        stop_reason: "paused",
        stop_word: "pause_turn",
      });
      const { content, opaque } = answer;
      const user = { role: "user", content: "fix it" } as const;
      for (const model of ["scripted", "another"])
        await ask(file, { stream, model, messages: [user, { role: "assistant", content, opaque }] });
      const [, same, other] = bodies.map(({ messages }) => messages.at(-1));
      expect(same).toEqual({ role: "assistant", content: BLOCKS });
      expect(other).toEqual({ role: "assistant", content: [{ type: "text", text: content }] });
      await file.close();
    } finally {
      await server.stop(true);
    }
  },
);

test.each([
  "",
  "{",
  "[]",
  '{"by":"anthropic scripted"}',
  '{"by":"anthropic scripted","parts":[{"type":"file"}]}',
])("a value that is not a paused turn of this model is left out: %p", async (opaque) => {
  const bodies: { messages: unknown[] }[] = [];
  const server = Bun.serve({
    port: 0,
    hostname: "127.0.0.1",
    fetch: async (request) => {
      bodies.push(JSON.parse(await request.text()));
      return whole();
    },
  });
  try {
    const file = await openModel(anthropic, "/dev/llm/anthropic", {
      base_url: `http://127.0.0.1:${server.port}`,
    });
    const user = { role: "user", content: "fix it" } as const;
    await ask(file, { messages: [user, { role: "assistant", content: "so", opaque }] });
    expect(bodies[0]?.messages.at(-1)).toEqual({
      role: "assistant",
      content: [{ type: "text", text: "so" }],
    });
    await file.close();
  } finally {
    await server.stop(true);
  }
});
