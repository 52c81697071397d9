/** The conditions of a replay script: their schema, and how a conversation is matched against them. */

import type { LLMRequest } from "rnix/plugin";
import { z } from "zod";
import { errorOf, type Normalize } from "./normalize.ts";

/** A condition on a text; all fields must match. A plain string must be contained in it. */
export type Match = string | Exclude<z.infer<typeof Match>, string>;

export const texts = z.union([z.string().min(1), z.array(z.string().min(1)).min(1)]);
export const pattern = z.string().refine(isPattern, { error: "is not a regular expression" });
const words = {
  /** Equal, after both are normalized (normalize.ts). */
  equals: z.string().optional(),
  /** Equal, byte for byte. */
  exact: z.string().optional(),
  contains: texts.optional(),
  lacks: texts.optional(),
  /** A regular expression that matches in it; `^` and `$` match at line ends. */
  matches: pattern.optional(),
  /** For a result: the code that its call failed with; true for any, false for none. */
  error: z.union([z.boolean(), z.string().regex(/^[A-Z_]+$/)]).optional(),
};

export const Match = z.union([z.string().min(1), z.strictObject(words)]);

const ResultMatch = z.union([
  z.string().min(1),
  /** The newest result of this tool, or of any tool. */
  z.strictObject({ ...words, tool: z.string().min(1).optional() }),
]);

/** A condition on the conversation sent to the model; all fields must match. */
export interface Condition {
  /** The newest result of a tool. */
  last_result?: z.infer<typeof ResultMatch>;
  /** The last message of the user. */
  message?: Match;
  /** All messages, joined. */
  conversation?: Match;
  system_prompt?: Match;
  /** These tools are offered. */
  tools?: string[];
  not?: Condition;
  /** At least one of these. */
  any?: Condition[];
}

export const Condition: z.ZodType<Condition> = z.lazy(() =>
  z.strictObject({
    last_result: ResultMatch.optional(),
    message: Match.optional(),
    conversation: Match.optional(),
    system_prompt: Match.optional(),
    tools: z.array(z.string().min(1)).min(1).optional(),
    not: Condition.optional(),
    any: z.array(Condition).min(1).optional(),
  }),
);

/** A part of the conversation that differs from what was expected. */
export interface Mismatch {
  /** The part: "the last result of Bash". */
  of: string;
  expected: string;
  actual: string;
}

/** The first part of the condition that is not true; null when all of it is. */
export function mismatchOf(condition: Condition, request: LLMRequest, normalize: Normalize): Mismatch | null {
  const { last_result, message, conversation, system_prompt, tools, not, any } = condition;
  const check = (of: string, match: Match | undefined, actual: string | undefined): Mismatch | null => {
    if (match === undefined) return null;
    if (actual === undefined) return { of, expected: described(match), actual: "(there is none)" };
    return matches(match, actual, normalize) ? null : { of, expected: described(match), actual };
  };
  return (
    check(resultName(last_result), withoutTool(last_result), newestResult(request, last_result)) ??
    check("the last message of the user", message, newest(request, "user")) ??
    check("the conversation", conversation, request.messages.map(({ content }) => content).join("\n")) ??
    check("the system prompt", system_prompt, request.system_prompt) ??
    missingTool(tools, request) ??
    (not && mismatchOf(not, request, normalize) === null
      ? { of: "the conversation", expected: `not: ${JSON.stringify(not)}`, actual: "it is true" }
      : null) ??
    noneOf(any, request, normalize)
  );
}

export function matches(match: Match, text: string, normalize: Normalize): boolean {
  if (typeof match === "string") return contains(text, match, normalize);
  const { equals, exact, contains: wanted, lacks, matches: regex, error } = match;
  return (
    (equals === undefined || equals === text || normalize(equals) === normalize(text)) &&
    (exact === undefined || exact === text) &&
    list(wanted).every((part) => contains(text, part, normalize)) &&
    !list(lacks).some((part) => contains(text, part, normalize)) &&
    (regex === undefined || new RegExp(regex, "m").test(text)) &&
    (error === undefined || failedAs(error, text))
  );
}

/** Whether a result sent to the model is of a call that failed with this code; true for any, false for none. */
export function failedAs(error: string | boolean, text: string): boolean {
  const code = errorOf(text);
  return typeof error === "string" ? code === error : error === (code !== null);
}

export function described(match: Match): string {
  if (typeof match === "string") return `contains: ${match}`;
  const { equals, exact, ...rest } = match;
  const whole = exact ?? equals;
  if (whole !== undefined && Object.keys(rest).length === 0) return whole;
  return Object.entries(match)
    .map(([word, value]) => `${word}: ${typeof value === "string" ? value : JSON.stringify(value)}`)
    .join("\n");
}

function contains(text: string, part: string, normalize: Normalize): boolean {
  return text.includes(part) || normalize(text).includes(normalize(part));
}

function withoutTool(wanted: Condition["last_result"]): Match | undefined {
  if (wanted === undefined || typeof wanted === "string") return wanted;
  const { tool: _tool, ...match } = wanted;
  return match;
}

function resultName(wanted: Condition["last_result"]): string {
  const tool = typeof wanted === "object" ? wanted.tool : undefined;
  return tool === undefined ? "the last result" : `the last result of ${tool}`;
}

function newestResult({ messages }: LLMRequest, wanted: Condition["last_result"]): string | undefined {
  const tool = typeof wanted === "object" ? wanted.tool : undefined;
  const ids = new Set(
    messages
      .flatMap(({ tool_calls }) => tool_calls ?? [])
      .filter(({ name }) => name === tool)
      .map(({ id }) => id),
  );
  return messages.findLast(
    ({ role, tool_call_id = "" }) => role === "tool" && (tool === undefined || ids.has(tool_call_id)),
  )?.content;
}

function newest({ messages }: LLMRequest, role: "user"): string | undefined {
  return messages.findLast((message) => message.role === role)?.content;
}

function missingTool(wanted: string[] | undefined, { tools = [] }: LLMRequest): Mismatch | null {
  const offered = tools.map(({ name }) => name);
  if (wanted === undefined || wanted.every((name) => offered.includes(name))) return null;
  return { of: "the tools", expected: wanted.join(", "), actual: offered.join(", ") || "none" };
}

function noneOf(any: Condition[] | undefined, request: LLMRequest, normalize: Normalize): Mismatch | null {
  if (any === undefined) return null;
  const mismatches: Mismatch[] = [];
  for (const condition of any) {
    const mismatch = mismatchOf(condition, request, normalize);
    if (mismatch === null) return null;
    mismatches.push(mismatch);
  }
  return {
    of: [...new Set(mismatches.map(({ of }) => of))].join(", "),
    expected: any.map((condition) => JSON.stringify(condition)).join("\nor "),
    actual: [...new Set(mismatches.map(({ actual }) => actual))].join("\n"),
  };
}

function list(value: string | string[] | undefined): string[] {
  return value === undefined ? [] : typeof value === "string" ? [value] : value;
}

function isPattern(text: string): boolean {
  try {
    return new RegExp(text, "m") instanceof RegExp;
  } catch (error) {
    if (error instanceof SyntaxError) return false;
    throw error;
  }
}
