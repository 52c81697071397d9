import type { LLMRequest } from "rnix/plugin";
import { z } from "zod";
import { errorOf, type Normalized } from "./normalize.ts";

/** What a text must be. Of several words, all must hold. A text alone is what it must contain. */
export type Match = string | Exclude<z.infer<typeof Match>, string>;

export const texts = z.union([z.string().min(1), z.array(z.string().min(1)).min(1)]);
export const pattern = z.string().refine(isPattern, { error: "is no regular expression" });
const words = {
  /** Equal, but for what differs from run to run anyway (usual.ts). */
  equals: z.string().optional(),
  /** Equal to the byte. */
  exact: z.string().optional(),
  contains: texts.optional(),
  lacks: texts.optional(),
  /** A regular expression that is found in it; `^` and `$` are those of a line. */
  matches: pattern.optional(),
  /** Of a result: the code its call failed with, true for any, false for none. */
  error: z.union([z.boolean(), z.string().regex(/^[A-Z_]+$/)]).optional(),
};

export const Match = z.union([z.string().min(1), z.strictObject(words)]);

const ResultMatch = z.union([
  z.string().min(1),
  /** The newest result of this tool; of any without it. */
  z.strictObject({ ...words, tool: z.string().min(1).optional() }),
]);

/** What must hold of the conversation as the model is shown it. Of several words, all must. */
export interface Condition {
  /** The newest result of a tool. */
  last_result?: z.infer<typeof ResultMatch>;
  /** What the user said last. */
  message?: Match;
  /** All messages, one after the other. */
  conversation?: Match;
  system_prompt?: Match;
  /** These tools are offered. */
  tools?: string[];
  not?: Condition;
  /** One of them at least. */
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

/** What was wanted of the conversation and what stands there instead. */
export interface Miss {
  /** Of what: "the last result of Bash". */
  of: string;
  expected: string;
  came: string;
}

/** What of the condition does not hold first; null when all of it does. */
export function missOf(condition: Condition, request: LLMRequest, usual: Normalized): Miss | null {
  const { last_result, message, conversation, system_prompt, tools, not, any } = condition;
  const missed = (of: string, match: Match | undefined, came: string | undefined): Miss | null => {
    if (match === undefined) return null;
    if (came === undefined) return { of, expected: described(match), came: "(there is none)" };
    return matches(match, came, usual) ? null : { of, expected: described(match), came };
  };
  return (
    missed(resultName(last_result), withoutTool(last_result), newestResult(request, last_result)) ??
    missed("the last message of the user", message, newest(request, "user")) ??
    missed("the conversation", conversation, request.messages.map(({ content }) => content).join("\n")) ??
    missed("the system prompt", system_prompt, request.system_prompt) ??
    missingTool(tools, request) ??
    (not && missOf(not, request, usual) === null
      ? { of: "the conversation", expected: `not: ${JSON.stringify(not)}`, came: "it is so" }
      : null) ??
    noneOf(any, request, usual)
  );
}

/** Whether a text is as it must be. */
export function matches(match: Match, text: string, usual: Normalized): boolean {
  if (typeof match === "string") return contains(text, match, usual);
  const { equals, exact, contains: wanted, lacks, matches: regex, error } = match;
  return (
    (equals === undefined || equals === text || usual(equals) === usual(text)) &&
    (exact === undefined || exact === text) &&
    list(wanted).every((part) => contains(text, part, usual)) &&
    !list(lacks).some((part) => contains(text, part, usual)) &&
    (regex === undefined || new RegExp(regex, "m").test(text)) &&
    (error === undefined || failedSo(error, text))
  );
}

/** Whether a call's result, as the model is shown it, is that of a call that failed so. */
export function failedSo(error: string | boolean, text: string): boolean {
  const code = errorOf(text);
  return typeof error === "string" ? code === error : error === (code !== null);
}

/** What is expected, for a person to read. */
export function described(match: Match): string {
  if (typeof match === "string") return `contains: ${match}`;
  const { equals, exact, ...rest } = match;
  const whole = exact ?? equals;
  if (whole !== undefined && Object.keys(rest).length === 0) return whole;
  return Object.entries(match)
    .map(([word, value]) => `${word}: ${typeof value === "string" ? value : JSON.stringify(value)}`)
    .join("\n");
}

function contains(text: string, part: string, usual: Normalized): boolean {
  return text.includes(part) || usual(text).includes(usual(part));
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

function missingTool(wanted: string[] | undefined, { tools = [] }: LLMRequest): Miss | null {
  const offered = tools.map(({ name }) => name);
  if (wanted === undefined || wanted.every((name) => offered.includes(name))) return null;
  return { of: "the tools", expected: wanted.join(", "), came: offered.join(", ") || "none" };
}

function noneOf(any: Condition[] | undefined, request: LLMRequest, usual: Normalized): Miss | null {
  if (any === undefined) return null;
  const missed: Miss[] = [];
  for (const condition of any) {
    const miss = missOf(condition, request, usual);
    if (miss === null) return null;
    missed.push(miss);
  }
  return {
    of: [...new Set(missed.map(({ of }) => of))].join(", "),
    expected: any.map((condition) => JSON.stringify(condition)).join("\nor "),
    came: [...new Set(missed.map(({ came }) => came))].join("\n"),
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
