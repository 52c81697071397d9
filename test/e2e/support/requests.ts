import { z } from "zod";
import type { RecordedRequest } from "../../support/model-server/server.ts";

/** The results of all tool calls so far, in order, in any provider's protocol. */
export function toolResults({ body }: RecordedRequest): string[] {
  return messagesOf(body).flatMap(({ role, content }) => {
    if (role === "tool") return [textOf(content)];
    if (typeof content === "string") return [];
    return content.flatMap((part) => (part.type === "tool_result" ? [textOf(part.content ?? "")] : []));
  });
}

/** The head of the prompt. */
export function systemPrompt({ body }: RecordedRequest): string {
  const { system, systemInstruction } = Head.parse(body);
  if (system !== undefined) return textOf(system);
  if (systemInstruction !== undefined) return textOf(systemInstruction.parts);
  const first = messagesOf(body).find(({ role }) => role === "system");
  return first === undefined ? "" : textOf(first.content);
}

/** The text of the user (or of a pipe). */
export function firstUserMessage({ body }: RecordedRequest): string {
  const first = messagesOf(body).find(({ role }) => role === "user");
  return first === undefined ? "" : textOf(first.content);
}

/** Names of the tools that were offered, sorted. */
export function toolNames({ body }: RecordedRequest): string[] {
  const { tools = [] } = z.looseObject({ tools: z.array(Tool).optional() }).parse(body);
  const named = tools.flatMap((tool) => tool.functionDeclarations ?? [tool.function ?? tool]);
  return named.map(({ name }) => name ?? "").toSorted();
}

const Part = z.looseObject({
  type: z.string(),
  text: z.string().optional(),
  content: z.union([z.string(), z.array(z.looseObject({ text: z.string().optional() }))]).optional(),
});
const Content = z.union([z.string(), z.array(Part)]);
const Message = z.looseObject({ role: z.string(), content: Content.nullish().transform((one) => one ?? "") });
const Named = z.looseObject({ name: z.string().optional() });
const Tool = Named.extend({ function: Named.optional(), functionDeclarations: z.array(Named).optional() });

/** Google's. */
const Contents = z.array(
  z.looseObject({
    role: z.string(),
    parts: z.array(
      z.looseObject({
        text: z.string().optional(),
        functionResponse: z.object({ response: z.object({ content: z.string() }) }).optional(),
      }),
    ),
  }),
);
/** OpenAI's Responses. */
const Item = z.looseObject({
  role: z.string().optional(),
  content: Content.optional(),
  /** Of a call. */
  output: z.string().optional(),
});
const Body = z.looseObject({
  messages: z.array(Message).optional(),
  contents: Contents.optional(),
  input: z.array(Item).optional(),
});
const Head = z.looseObject({
  system: Content.optional(),
  systemInstruction: z.looseObject({ parts: z.array(z.looseObject({ text: z.string() })) }).optional(),
});

function messagesOf(body: unknown): z.infer<typeof Message>[] {
  const { messages, contents, input } = Body.parse(body);
  if (contents) return contents.map(({ role, parts }) => ({ role, content: parts.map(anthropicPart) }));
  return messages ?? (input ?? []).flatMap(chatMessage);
}

/** An item of OpenAI's Responses, as its chat would have it. */
function chatMessage(item: z.infer<typeof Item>): z.infer<typeof Message>[] {
  if (item.output !== undefined) return [{ role: "tool", content: item.output }];
  return item.role === undefined ? [] : [{ role: item.role, content: item.content ?? "" }];
}

/** A part of Google's, as Anthropic would have it. */
function anthropicPart({ text, functionResponse }: z.infer<typeof Contents>[number]["parts"][number]) {
  if (functionResponse === undefined) return { type: "text", text: text ?? "" };
  return { type: "tool_result", content: functionResponse.response.content };
}

function textOf(content: string | { text?: string }[]): string {
  return typeof content === "string" ? content : content.map(({ text }) => text ?? "").join("");
}
