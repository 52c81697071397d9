/** Writes a call as a person must see it to decide about it: nothing is left out, and nothing is hidden. */

import { visible } from "../plugin/visible.ts";

/** The text with its line breaks and tabs; any other character that is not seen is written out. */
export function visibleLines(text: string): string {
  return text.replaceAll(/[^\n\t]+/g, visible);
}

/** The same of all texts in a value. */
function visibleValue(value: unknown): unknown {
  if (typeof value === "string") return visibleLines(value);
  if (Array.isArray(value)) return value.map(visibleValue);
  return typeof value === "object" && value !== null ? visibleInput(Object.entries(value)) : value;
}

export function visibleInput(fields: readonly [string, unknown][]): Record<string, unknown> {
  return Object.fromEntries(fields.map(([key, value]) => [visible(key), visibleValue(value)]));
}

/** A line or more for each text or object of the input that `shown` does not hold. */
export function fieldLines(input: Record<string, unknown>, shown: string): string[] {
  return Object.entries(visibleInput(Object.entries(input))).flatMap(([key, value]) => {
    if (typeof value !== "string" && (typeof value !== "object" || value === null)) return [];
    const text = typeof value === "string" ? value : JSON.stringify(value, null, 2);
    return shown.includes(text.trim()) ? [] : `${key}: ${text}`.split("\n");
  });
}
