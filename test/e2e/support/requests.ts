import { z } from "zod";
import type { RecordedRequest } from "../../support/model-server/server.ts";

/** What the model was shown, in either protocol: results of all tool calls so far, in order. */
export function toolResults({ body }: RecordedRequest): string[] {
  return messagesOf(body).flatMap(({ role, content }) => {
    if (role === "tool") return [textOf(content)];
    if (typeof content === "string") return [];
    return content.flatMap((part) => (part.type === "tool_result" ? [textOf(part.content ?? "")] : []));
  });
}

/** The head of the prompt. */
export function systemPrompt({ body }: RecordedRequest): string {
  const { system } = z.looseObject({ system: Content.optional() }).parse(body);
  if (system !== undefined) return textOf(system);
  const first = messagesOf(body).find(({ role }) => role === "system");
  return first === undefined ? "" : textOf(first.content);
}

/** What the person (or a pipe) said. */
export function firstUserMessage({ body }: RecordedRequest): string {
  const first = messagesOf(body).find(({ role }) => role === "user");
  return first === undefined ? "" : textOf(first.content);
}

/** Names of the tools that were offered, sorted. */
export function toolNames({ body }: RecordedRequest): string[] {
  const { tools = [] } = z.looseObject({ tools: z.array(Tool).optional() }).parse(body);
  return tools.map((tool) => tool.function?.name ?? tool.name ?? "").toSorted();
}

const Part = z.looseObject({
  type: z.string(),
  text: z.string().optional(),
  content: z.union([z.string(), z.array(z.looseObject({ text: z.string().optional() }))]).optional(),
});
const Content = z.union([z.string(), z.array(Part)]);
const Message = z.looseObject({ role: z.string(), content: Content.nullish().transform((one) => one ?? "") });
const Tool = z.looseObject({
  name: z.string().optional(),
  function: z.looseObject({ name: z.string() }).optional(),
});

function messagesOf(body: unknown): z.infer<typeof Message>[] {
  return z.looseObject({ messages: z.array(Message) }).parse(body).messages;
}

function textOf(content: string | { text?: string }[]): string {
  return typeof content === "string" ? content : content.map(({ text }) => text ?? "").join("");
}
