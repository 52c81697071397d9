import { z } from "zod";
import type { RecordedRequest } from "../../../support/model-server/server.ts";

/** A tool call and the result that the model got. */
export interface Call {
  id: string;
  name: string;
  input: Record<string, unknown>;
  result: string;
}

/** What a request shows of its run. */
export interface Conversation {
  /** How the first user message begins. */
  intent: string;
  /** All calls so far, oldest first. */
  calls: Call[];
}

/**
 * Reads a chat completions request as a strict provider would: every call has one result, behind it and in order,
 * and there are no other results. Throws for what such a provider refuses.
 */
export function conversationOf({ body }: RecordedRequest): Conversation {
  const { messages } = Body.parse(body);
  const conversation: Conversation = { intent: "", calls: [] };
  const open: Call[] = [];
  const ids = new Set<string>();
  for (const message of messages) {
    if (message.role === "tool") {
      const call = open.shift();
      if (call?.id !== message.tool_call_id) {
        throw new Error(`a result of ${message.tool_call_id} where one of ${call?.id} was due`);
      }
      call.result = message.content;
      continue;
    }
    if (open.length > 0) throw new Error(`no result of ${open.map(({ id }) => id).join(", ")}`);
    if (message.role === "user" && conversation.intent === "") conversation.intent = message.content;
    if (message.role !== "assistant") continue;
    for (const call of message.tool_calls.map(callOf)) {
      if (ids.has(call.id)) throw new Error(`two calls have the id ${call.id}`);
      ids.add(call.id);
      open.push(call);
      conversation.calls.push(call);
    }
  }
  if (open.length > 0) throw new Error(`no result of ${open.map(({ id }) => id).join(", ")}`);
  return conversation;
}

const ToolCall = z.object({
  id: z.string(),
  function: z.object({ name: z.string(), arguments: z.string() }),
});
const text = z
  .string()
  .nullish()
  .transform((content) => content ?? "");
const Body = z.object({
  messages: z.array(
    z.discriminatedUnion("role", [
      z.object({ role: z.literal("system"), content: text }),
      z.object({ role: z.literal("user"), content: text }),
      z.object({ role: z.literal("assistant"), content: text, tool_calls: z.array(ToolCall).default([]) }),
      z.object({ role: z.literal("tool"), tool_call_id: z.string(), content: text }),
    ]),
  ),
});

function callOf({ id, function: { name, arguments: input } }: z.infer<typeof ToolCall>): Call {
  return { id, name, input: z.record(z.string(), z.unknown()).parse(JSON.parse(input)), result: "" };
}
