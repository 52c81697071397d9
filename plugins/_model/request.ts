import { type Data, type LLMRequest, SyscallError } from "rnix/plugin";
import { z } from "zod";

/** The request a process has written. INVALID says which part is not as expected. */
export function parseRequest(data: Data): LLMRequest {
  const text = typeof data === "string" ? data : new TextDecoder().decode(data);
  let json: unknown;
  try {
    json = JSON.parse(text);
  } catch (cause) {
    const message = `a model device takes one request as JSON; this is none: ${JSON.stringify(text.slice(0, 80))}`;
    throw new SyscallError("INVALID", message, { cause });
  }
  const result = Request.safeParse(json);
  if (result.success) return result.data;
  const message = `a model device takes {intent, system_prompt, model, messages, …}: ${z.prettifyError(result.error)}`;
  throw new SyscallError("INVALID", message, { cause: result.error });
}

const ToolCall = z.object({
  id: z.string(),
  name: z.string(),
  input: z.record(z.string(), z.unknown()),
  invalid: z.object({ text: z.string(), reason: z.string() }).optional(),
});

const Message = z.object({
  role: z.enum(["system", "user", "assistant", "tool"]),
  content: z.string(),
  tool_call_id: z.string().optional(),
  tool_calls: z.array(ToolCall).optional(),
});

const Request = z.object({
  intent: z.string().default(""),
  system_prompt: z.string().default(""),
  model: z.string().min(1),
  max_turns: z.number().optional(),
  timeout_ms: z.number().optional(),
  messages: z.array(Message).default([]),
  tools: z
    .array(z.object({ name: z.string(), description: z.string(), input: z.record(z.string(), z.unknown()) }))
    .optional(),
  max_output: z.number().int().positive().optional(),
  stream: z.boolean().optional(),
});
