import { type LLMMessage, type LLMRequest, SyscallError, type ToolCall } from "rnix/plugin";
import { described, failedSo, type Match, type Miss, matches, missOf } from "./condition.ts";
import { errorOf, type Normalized } from "./normalize.ts";
import type { Branch, Compare, Response, Script } from "./script.ts";

/** Lines of each side that a message shows, and characters of each line. */
const LINES = 12;
const COLUMNS = 200;
/** Lines before the first that differs. */
const BEFORE = 2;

interface Rule {
  script: Script;
  compare: Compare;
  usual: Normalized;
}

/** Throws where a call of the answer before has come to something else than the script expects. */
export function checkResults(
  before: Response | undefined,
  request: LLMRequest,
  turn: number,
  rule: Rule,
): void {
  const scripted = before?.tool_calls ?? [];
  if (scripted.every(({ expect }) => expect === undefined)) return;
  const { messages } = request;
  const at = messages.findLastIndex(({ role }) => role === "assistant");
  const made = messages[at]?.tool_calls ?? [];
  for (const [index, { name, expect }] of scripted.entries()) {
    const call = made[index];
    if (expect === undefined || call?.name !== name) continue;
    const result = messages.find(
      ({ role, tool_call_id }, place) => place > at && role === "tool" && tool_call_id === call.id,
    );
    if (result && !asExpected(expect, result, rule)) throw otherResult(call, expect, result, turn - 1, rule);
  }
}

/** Throws where the conversation is not what the answer to give expects. */
export function checkConversation(now: Response, request: LLMRequest, turn: number, rule: Rule): void {
  const miss = now.expect === undefined ? null : missOf(now.expect, request, rule.usual);
  if (miss) throw diverged(rule.script, turn, `${miss.of} is not what was expected`, miss, rule.usual);
}

/** At a branch none of whose ways may be taken. */
export function noWay(
  { one_of }: Branch,
  request: LLMRequest,
  turn: number,
  { script, usual }: Rule,
): SyscallError {
  const missed = one_of.flatMap(({ when }) => {
    const miss = when === undefined ? null : missOf(when, request, usual);
    return miss === null ? [] : [miss];
  });
  const both: Miss = {
    of: "",
    expected: missed.map(({ of, expected }) => `${of}: ${expected}`).join("\nor "),
    came: [...new Map(missed.map(({ of, came }) => [of, `${of}: ${came}`])).values()].join("\n"),
  };
  return diverged(script, turn, "no condition of its branch holds", both, (text) => text);
}

function asExpected(expect: Match, { content }: LLMMessage, { compare, usual }: Rule): boolean {
  if (compare === "state") return failedSo(stateOf(expect), content);
  if (compare === "exact" && typeof expect !== "string" && expect.equals !== undefined) {
    const { equals, ...rest } = expect;
    return equals === content && matches(rest, content, usual);
  }
  return matches(expect, content, usual);
}

/** How a call has gone that came to this. */
function stateOf(expect: Match): string | boolean {
  if (typeof expect === "string") return errorOf(expect) ?? false;
  return expect.error ?? errorOf(expect.equals ?? expect.exact ?? "") ?? false;
}

function otherResult(
  { name, input }: ToolCall,
  expect: Match,
  { content }: LLMMessage,
  turn: number,
  { script, compare, usual }: Rule,
): SyscallError {
  const written = JSON.stringify(input);
  const call = `${name} ${written.length > COLUMNS ? `${written.slice(0, COLUMNS)}…` : written}`;
  const expected = described(expect);
  const same = compare === "exact" ? (text: string) => text : usual;
  return diverged(script, turn, `${call} came to something else`, { of: "", expected, came: content }, same);
}

function diverged(
  { name }: Script,
  turn: number,
  what: string,
  { expected, came }: Miss,
  usual: Normalized,
): SyscallError {
  const from = firstDifference(expected, came, usual);
  return new SyscallError(
    "INVALID",
    `${name} diverges at turn ${turn + 1}: ${what}\nexpected${excerpt(expected, from)}\ncame${excerpt(came, from)}`,
    { retryable: false },
  );
}

function firstDifference(one: string, other: string, usual: Normalized): number {
  const a = one.split("\n");
  const b = other.split("\n");
  const at = a.findIndex((line, index) => usual(line) !== usual(b[index] ?? ""));
  return Math.max(0, (at < 0 ? Math.min(a.length, b.length) : at) - BEFORE);
}

function excerpt(text: string, from: number): string {
  const lines = text.split("\n");
  const shown = lines
    .slice(from, from + LINES)
    .map((line) => `  ${line.length > COLUMNS ? `${line.slice(0, COLUMNS)}…` : line}`);
  const where = from === 0 ? "" : ` (from line ${from + 1})`;
  const left = lines.length - from - shown.length;
  return `${where}\n${shown.join("\n") || "  (nothing)"}${left > 0 ? `\n  … ${left} more lines` : ""}`;
}
