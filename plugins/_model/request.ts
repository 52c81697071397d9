/** Parses what a process writes to a model device. */

import {
  type Data,
  EFFORTS,
  IMAGE_TYPES,
  type LLMRequest,
  type ModelListRequest,
  SyscallError,
} from "rnix/plugin";
import { z } from "zod";
import { isObject } from "../_lib/is-object.ts";
import { issueText } from "../_lib/issue-text.ts";

/** Parses the request that a process has written. Fails with INVALID, which names the wrong part. */
export function parseRequest(data: Data): LLMRequest {
  const text = typeof data === "string" ? data : new TextDecoder().decode(data);
  let json: unknown;
  try {
    json = JSON.parse(text);
  } catch (cause) {
    const message = `a model device takes one request as JSON, not ${JSON.stringify(text.slice(0, 80))}`;
    throw new SyscallError("INVALID", message, { cause });
  }
  // The kernel's own requests are complete. The schema fills in defaults and explains, but is slow.
  if (isRequest(json)) return json;
  const result = Request.safeParse(json);
  if (result.success) return result.data;
  const message = `a model device takes {intent, system_prompt, model, messages, …}: ${issueText(result.error)}`;
  throw new SyscallError("INVALID", message, { cause: result.error });
}

const LIST: ModelListRequest = { op: "models" };
const LIST_TEXT = JSON.stringify(LIST);

/** Whether the service's list of models is asked for, and no answer. */
export function asksForModels(data: Data): boolean {
  return (
    data.length === LIST_TEXT.length &&
    (typeof data === "string" ? data : new TextDecoder().decode(data)) === LIST_TEXT
  );
}

function isRequest(value: unknown): value is LLMRequest {
  return (
    isObject(value) &&
    typeof value.intent === "string" &&
    typeof value.system_prompt === "string" &&
    typeof value.model === "string" &&
    value.model !== "" &&
    Array.isArray(value.messages) &&
    value.messages.every(isMessage) &&
    (value.tools === undefined || (Array.isArray(value.tools) && value.tools.every(isTool))) &&
    (value.max_turns === undefined || typeof value.max_turns === "number") &&
    (value.timeout_ms === undefined || typeof value.timeout_ms === "number") &&
    (value.turn === undefined || value.turn === null || typeof value.turn === "number") &&
    (value.max_output === undefined ||
      (Number.isInteger(value.max_output) && Number(value.max_output) > 0)) &&
    (value.stream === undefined || typeof value.stream === "boolean") &&
    (value.effort === undefined || EFFORTS.some((effort) => effort === value.effort)) &&
    (value.output_schema === undefined || isObject(value.output_schema))
  );
}

function isMessage(value: unknown): boolean {
  return (
    isObject(value) &&
    ROLE_NAMES.has(value.role) &&
    typeof value.content === "string" &&
    (value.tool_call_id === undefined || typeof value.tool_call_id === "string") &&
    (value.opaque === undefined || typeof value.opaque === "string") &&
    (value.tool_calls === undefined ||
      (Array.isArray(value.tool_calls) && value.tool_calls.every(isToolCall))) &&
    (value.images === undefined || (Array.isArray(value.images) && value.images.every(isImage)))
  );
}

function isToolCall(value: unknown): boolean {
  return (
    isObject(value) &&
    typeof value.id === "string" &&
    typeof value.name === "string" &&
    isObject(value.input) &&
    value.invalid === undefined &&
    (value.opaque === undefined || typeof value.opaque === "string")
  );
}

function isImage(value: unknown): boolean {
  return (
    isObject(value) && IMAGE_TYPES.some((type) => type === value.media_type) && typeof value.data === "string"
  );
}

function isTool(value: unknown): boolean {
  return (
    isObject(value) &&
    typeof value.name === "string" &&
    typeof value.description === "string" &&
    isObject(value.input)
  );
}

const ROLES = ["system", "user", "assistant", "tool"] as const;
const ROLE_NAMES: ReadonlySet<unknown> = new Set(ROLES);

const ToolCall = z.object({
  id: z.string(),
  name: z.string(),
  input: z.record(z.string(), z.unknown()),
  invalid: z.object({ text: z.string(), reason: z.string() }).optional(),
  opaque: z.string().optional(),
});

const Message = z.lazy(() =>
  z.object({
    role: z.enum(ROLES),
    content: z.string(),
    tool_call_id: z.string().optional(),
    tool_calls: z.array(ToolCall).optional(),
    opaque: z.string().optional(),
    images: z.array(z.object({ media_type: z.enum(IMAGE_TYPES), data: z.base64() })).optional(),
  }),
);

const Request = z.lazy(() =>
  z.object({
    intent: z.string().default(""),
    system_prompt: z.string().default(""),
    model: z.string().min(1),
    max_turns: z.number().optional(),
    timeout_ms: z.number().optional(),
    turn: z.number().int().nonnegative().nullable().optional(),
    messages: z.array(Message).default([]),
    tools: z
      .array(
        z.object({ name: z.string(), description: z.string(), input: z.record(z.string(), z.unknown()) }),
      )
      .optional(),
    max_output: z.number().int().positive().optional(),
    stream: z.boolean().optional(),
    effort: z.enum(EFFORTS).optional(),
    output_schema: z.record(z.string(), z.unknown()).optional(),
  }),
);
