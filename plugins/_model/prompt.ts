/** The messages of a request in the form of the provider packages. */

import type {
  JSONSchema7,
  LanguageModelV4CallOptions,
  LanguageModelV4FilePart,
  LanguageModelV4Message,
} from "@ai-sdk/provider";
import { type LLMMessage, type LLMRequest, SyscallError } from "rnix/plugin";
import { type AssistantContent, pausedMessage, signaturesOf } from "./answer-parts.ts";

/**
 * A request in the form of the provider packages; a driver adds what is specific to its provider. `by`: the model
 * whose signatures are sent back.
 */
export function callOptions(request: LLMRequest, by: string): LanguageModelV4CallOptions {
  return {
    prompt: prompt(request, by),
    ...(request.max_output === undefined ? {} : { maxOutputTokens: request.max_output }),
    ...(request.effort === undefined ? {} : { reasoning: request.effort }),
    ...(request.tools === undefined || request.tools.length === 0 ? {} : { tools: tools(request.tools) }),
  };
}

function prompt(request: LLMRequest, by: string): LanguageModelV4Message[] {
  const head = leadingSystem(request.messages);
  const system = [request.system_prompt, ...head.map((message) => message.content)].filter(
    (text) => text !== "",
  );
  const result: LanguageModelV4Message[] = [];
  if (system.length > 0) result.push({ role: "system", content: system.join("\n\n") });
  const rest = request.messages.slice(head.length);
  if (rest.length === 0) rest.push({ role: "user", content: request.intent });
  const names = new Map<string, string>();
  for (const message of rest) append(result, message, names, by);
  return result;
}

/** Appends one message. The results of one batch of calls become one message, as providers expect. */
function append(
  result: LanguageModelV4Message[],
  message: LLMMessage,
  names: Map<string, string>,
  by: string,
): void {
  switch (message.role) {
    case "system":
      // Most servers refuse this role within a conversation, so it becomes a marked user message.
      result.push({
        role: "user",
        content: [text(`<system>\n${withoutSystemTags(message.content)}\n</system>`)],
      });
      break;
    case "user":
      result.push({ role: "user", content: [text(message.content), ...images(message)] });
      break;
    case "assistant":
      for (const call of message.tool_calls ?? []) names.set(call.id, call.name);
      appendAssistant(result, message, by);
      break;
    case "tool":
      appendResult(result, message, names);
  }
}

/** Escapes tags in the text that would open or close the marker. */
function withoutSystemTags(content: string): string {
  return content.replace(/<(?=[\s/]*system\b)/gi, "&lt;");
}

function appendAssistant(result: LanguageModelV4Message[], message: LLMMessage, by: string): void {
  const paused = pausedMessage(message.opaque, by);
  if (paused !== undefined) {
    result.push({ role: "assistant", content: paused });
    return;
  }
  const thoughts: AssistantContent = [];
  const calls: AssistantContent = [];
  for (const call of message.tool_calls ?? []) {
    const signatures = signaturesOf(call, by);
    for (const { text, meta } of signatures?.thoughts ?? [])
      thoughts.push({ type: "reasoning", text, providerOptions: meta });
    const { id: toolCallId, name: toolName, input } = call;
    const providerOptions = signatures?.meta;
    calls.push({
      type: "tool-call",
      toolCallId,
      toolName,
      input,
      ...(providerOptions && { providerOptions }),
    });
  }
  const content = [...thoughts, ...(message.content === "" ? [] : [text(message.content)]), ...calls];
  if (content.length > 0) result.push({ role: "assistant", content });
}

function appendResult(
  result: LanguageModelV4Message[],
  message: LLMMessage,
  names: Map<string, string>,
): void {
  const id = message.tool_call_id ?? "";
  const toolName = names.get(id);
  if (toolName === undefined)
    throw new SyscallError(
      "INVALID",
      `a tool's result must answer an earlier call; there is no call with id "${id}"`,
    );
  const part = {
    type: "tool-result" as const,
    toolCallId: id,
    toolName,
    output: { type: "text" as const, value: message.content },
  };
  const last = result.at(-1);
  if (last?.role === "tool") last.content.push(part);
  else result.push({ role: "tool", content: [part] });
}

function leadingSystem(messages: LLMMessage[]): LLMMessage[] {
  const end = messages.findIndex((message) => message.role !== "system");
  return messages.slice(0, end === -1 ? messages.length : end);
}

function images({ images = [] }: LLMMessage): LanguageModelV4FilePart[] {
  return images.map(({ media_type, data }) => ({
    type: "file",
    mediaType: media_type,
    data: { type: "data", data },
  }));
}

function text(value: string): { type: "text"; text: string } {
  return { type: "text", text: value };
}

function tools(list: NonNullable<LLMRequest["tools"]>): LanguageModelV4CallOptions["tools"] {
  return list.map((tool) => ({
    type: "function",
    name: tool.name,
    description: tool.description,
    inputSchema: tool.input satisfies JSONSchema7,
  }));
}
