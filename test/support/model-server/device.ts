import type { ModelRequest } from "../../../src/kernel/llm/model-device.ts";
import {
  type LLMAnswer,
  type LLMEvent,
  type LLMRequest,
  O_RDWR,
  type OpenContext,
  type Plugin,
  SyscallError,
  type VFSFile,
} from "../../../src/plugin/index.ts";
import { testContext } from "../conformance/context.ts";

/** A model device of a plugin, opened as the kernel opens it for a provider's entry. */
export async function openModel(
  plugin: Plugin,
  path: string,
  entry: {
    base_url?: string;
    extra?: Record<string, unknown>;
    key?: string | null;
    cwd?: string;
    progress?: OpenContext["progress"];
  },
): Promise<VFSFile> {
  const device = plugin.devices?.[path];
  if (device === undefined) throw new Error(`the plugin ${plugin.name} has no device ${path}`);
  const { base_url, extra, key = "test-key", cwd = "/", progress } = entry;
  const secret: OpenContext["secret"] = async () => {
    if (key !== null) return key;
    throw new SyscallError("UNAVAILABLE", "there is no key");
  };
  const { context } = testContext(cwd, {
    config: { base_url, extra },
    secret,
    ...(progress && { progress }),
  });
  return await device.factory("", O_RDWR, context);
}

/** Without images: so it is one as the kernel holds it, too. */
export const request: LLMRequest & ModelRequest = {
  intent: "fix it",
  system_prompt: "You are careful.",
  model: "scripted",
  messages: [{ role: "user", content: "fix it" }],
  tools: [
    {
      name: "Bash",
      description: "Runs a command",
      input: { type: "object", properties: { command: { type: "string" } }, required: ["command"] },
    },
  ],
};

/** One exchange, with the answer as the gate would have it: put together from events, or read whole. */
export async function ask(
  file: VFSFile,
  what: Partial<LLMRequest> = {},
  signal: AbortSignal = new AbortController().signal,
): Promise<{ answer: LLMAnswer; events: LLMEvent[] }> {
  const asked = { ...request, ...what };
  await file.write(JSON.stringify(asked), signal);
  const events: LLMEvent[] = [];
  const answer: LLMAnswer = {
    content: "",
    tool_calls: [],
    stop_reason: "unknown",
    usage: { input_tokens: 0, output_tokens: 0, cached_tokens: 0 },
    tokens_used: 0,
  };
  for (;;) {
    const piece = String(await file.read(16_000_000, signal));
    if (piece === "") return { answer, events };
    if (asked.stream !== true) {
      Object.assign(answer, JSON.parse(piece));
      continue;
    }
    const event: LLMEvent = JSON.parse(piece);
    events.push(event);
    if (event.type === "text_delta") answer.content += event.text;
    else if (event.type === "tool_call") answer.tool_calls.push(event.call);
    else if (event.type === "stop") {
      answer.stop_reason = event.reason;
      if (event.word !== undefined) answer.stop_word = event.word;
      if (event.opaque !== undefined) answer.opaque = event.opaque;
    } else if (event.type === "reasoning_delta" && event.text !== "")
      answer.reasoning = (answer.reasoning ?? "") + event.text;
    else if (event.type === "usage") {
      answer.usage = event.usage;
      answer.tokens_used = event.usage.input_tokens + event.usage.output_tokens;
    }
  }
}
