/** Describes what is wrong with a payload. */

import type { z } from "zod";

/** Describes the first issue that a schema found: `max_steps: expected …; got -1.` */
export function describeIssue(error: z.ZodError, value: unknown): string {
  const [issue] = error.issues;
  if (!issue) return "The request has the wrong form.";
  const field = issue.path.map(String).join(".");
  const got = issue.path.reduce<unknown>(step, value);
  return `${field || "The request"}: ${issue.message.replace(/\.$/, "")}; got ${shown(got)}.`;
}

function step(value: unknown, key: PropertyKey): unknown {
  return typeof value === "object" && value !== null ? Reflect.get(value, key) : undefined;
}

function shown(value: unknown): string {
  if (value === undefined) return "nothing";
  const text = written(value);
  return text.length > 80 ? `${text.slice(0, 80)}…` : text;
}

/** JSON can be parsed at a depth at which it can't be written. */
function written(value: unknown): string {
  try {
    return JSON.stringify(value);
  } catch (error) {
    if (error instanceof RangeError) return "something nested too deeply to show";
    throw error;
  }
}
