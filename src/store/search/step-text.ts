/** The text of a recorded step that is searched. */

import { z } from "zod";

/** Maximum characters of a step, of a result and of an input that are searched. */
const MAX_STEP_CHARS = 65_536;
const MAX_RESULT_CHARS = 4_096;
const MAX_INPUT_CHARS = 4_096;

/** The searched part of a line of steps.jsonl. */
const SearchedStep = z.object({
  step: z.number(),
  ts: z.string(),
  messages: z.array(z.object({ role: z.string(), content: z.string() })),
  tool_calls: z.array(
    z.object({
      name: z.string(),
      input: z.unknown(),
      result: z.string().nullable(),
      error: z.string().nullable(),
    }),
  ),
  /** Events that the record keeps as they are: those with a text of their own. */
  entries: z.array(z.object({ text: z.string().optional() })).default([]),
  /** In a fork, the run that made the step: a search finds it there. */
  origin_uuid: z.string().optional(),
});

export interface SearchedText {
  step: number;
  time_ms: number;
  text: string;
}

/** Returns null for a line that is no step of this run. */
export function searchedText(line: string): SearchedText | null {
  const record = parsed(line);
  if (record === null || record.origin_uuid !== undefined) return null;
  const { step, ts, messages, tool_calls, entries } = record;
  const spoken = messages.filter(({ role }) => role === "user" || role === "assistant");
  const parts = [...spoken.map(({ content }) => content), ...entries.map(({ text = "" }) => text)];
  for (const { name, input, result, error } of tool_calls) {
    parts.push(`${name} ${inputText(input)}`);
    parts.push((result ?? error ?? "").slice(0, MAX_RESULT_CHARS));
  }
  const text = parts.filter((part) => part !== "").join("\n");
  return { step, time_ms: Date.parse(ts) || 0, text: text.slice(0, MAX_STEP_CHARS) };
}

function parsed(line: string): z.infer<typeof SearchedStep> | null {
  try {
    return SearchedStep.safeParse(JSON.parse(line)).data ?? null;
  } catch {
    return null;
  }
}

/** The values of an input, without the names and the syntax. */
function inputText(input: unknown): string {
  const texts: string[] = [];
  let left = MAX_INPUT_CHARS;
  const add = (value: unknown, depth: number): void => {
    if (left <= 0 || depth > 8) return;
    if (typeof value === "string" || typeof value === "number") {
      const text = String(value).slice(0, left);
      left -= text.length + 1;
      texts.push(text);
    } else if (typeof value === "object" && value !== null) {
      for (const inner of Object.values(value)) add(inner, depth + 1);
    }
  };
  add(input, 0);
  return texts.join(" ");
}
