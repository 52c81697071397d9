/** Compares a replayed conversation with what its script expects, and throws at the first difference. */

import { type LLMMessage, type LLMRequest, SyscallError, type ToolCall } from "rnix/plugin";
import { described, failedAs, type Match, type Mismatch, matches, mismatchOf } from "./condition.ts";
import { errorOf, type Normalize } from "./normalize.ts";
import type { Branch, Compare, Response, Script } from "./script.ts";

/** A message shows this many lines of each side, and this many characters of each line. */
const LINES = 12;
const COLUMNS = 200;
/** Lines before the first that differs. */
const BEFORE = 2;

interface Rule {
  script: Script;
  compare: Compare;
  normalize: Normalize;
}

/** Throws when a call of the previous answer had another result than the script expects. */
export function checkResults(
  previous: Response | undefined,
  request: LLMRequest,
  turn: number,
  rule: Rule,
): void {
  const scripted = previous?.tool_calls ?? [];
  if (scripted.every(({ expect }) => expect === undefined)) return;
  const { messages } = request;
  const at = messages.findLastIndex(({ role }) => role === "assistant");
  const made = messages[at]?.tool_calls ?? [];
  for (const [index, { name, expect }] of scripted.entries()) {
    const call = made[index];
    if (expect === undefined || call?.name !== name) continue;
    const result = messages.find(
      ({ role, tool_call_id }, index) => index > at && role === "tool" && tool_call_id === call.id,
    );
    if (result && !asExpected(expect, result, rule))
      throw unexpectedResult(call, expect, result, turn - 1, rule);
  }
}

/** Throws when the conversation is not what the current answer expects. */
export function checkConversation(current: Response, request: LLMRequest, turn: number, rule: Rule): void {
  const mismatch = current.expect === undefined ? null : mismatchOf(current.expect, request, rule.normalize);
  if (mismatch)
    throw diverged(rule.script, turn, `${mismatch.of} is not what was expected`, mismatch, rule.normalize);
}

/** The error of a branch without an option to take. */
export function noOption(
  { one_of }: Branch,
  request: LLMRequest,
  turn: number,
  { script, normalize }: Rule,
): SyscallError {
  const mismatches = one_of.flatMap(({ when }) => {
    const mismatch = when === undefined ? null : mismatchOf(when, request, normalize);
    return mismatch === null ? [] : [mismatch];
  });
  const all: Mismatch = {
    of: "",
    expected: mismatches.map(({ of, expected }) => `${of}: ${expected}`).join("\nor "),
    actual: [...new Map(mismatches.map(({ of, actual }) => [of, `${of}: ${actual}`])).values()].join("\n"),
  };
  return diverged(script, turn, "no condition of its branch is true", all, (text) => text);
}

function asExpected(expect: Match, { content }: LLMMessage, { compare, normalize }: Rule): boolean {
  if (compare === "state") return failedAs(stateOf(expect), content);
  if (compare === "exact" && typeof expect !== "string" && expect.equals !== undefined) {
    const { equals, ...rest } = expect;
    return equals === content && matches(rest, content, normalize);
  }
  return matches(expect, content, normalize);
}

/** The error code that an expected result stands for; false for success. */
function stateOf(expect: Match): string | boolean {
  if (typeof expect === "string") return errorOf(expect) ?? false;
  return expect.error ?? errorOf(expect.equals ?? expect.exact ?? "") ?? false;
}

function unexpectedResult(
  { name, input }: ToolCall,
  expect: Match,
  { content }: LLMMessage,
  turn: number,
  { script, compare, normalize }: Rule,
): SyscallError {
  const written = JSON.stringify(input);
  const call = `${name} ${written.length > COLUMNS ? `${written.slice(0, COLUMNS)}…` : written}`;
  const expected = described(expect);
  const same = compare === "exact" ? (text: string) => text : normalize;
  return diverged(script, turn, `${call} had another result`, { of: "", expected, actual: content }, same);
}

function diverged(
  { name }: Script,
  turn: number,
  what: string,
  { expected, actual }: Mismatch,
  normalize: Normalize,
): SyscallError {
  const from = firstDifference(expected, actual, normalize);
  const message = `${name} diverges at turn ${turn + 1}: ${what}\nexpected${excerpt(expected, from)}\nactual${excerpt(actual, from)}`;
  return new SyscallError("INVALID", message, { retryable: false });
}

function firstDifference(one: string, other: string, normalize: Normalize): number {
  const a = one.split("\n");
  const b = other.split("\n");
  const at = a.findIndex((line, index) => normalize(line) !== normalize(b[index] ?? ""));
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
