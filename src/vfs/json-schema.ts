/** Compiles JSON Schemas to zod types. */

import { z } from "zod";

/**
 * Compiles a JSON Schema of a tool, a plugin or a run's answer to a zod type. Throws an Error for a schema that zod can't
 * read, and for one whose check of a value would not end.
 */
export function readSchema(schema: object): z.ZodType {
  refuseEndlessRecursion(schema);
  return z.fromJSONSchema({ ...schema });
}

const MAX_SCHEMAS_PER_VALUE = 10_000;
/** Keywords whose subschemas apply to the same value, not to a part of it. */
const OF_SAME_VALUE = ["allOf", "anyOf", "oneOf"];

/** A recursive schema may describe nested parts. A recursion on the same value would not end, and fails here. */
function refuseEndlessRecursion(root: object): void {
  const looks = new Map<object, number>();
  const under = new Set<object>();
  const looksOf = (schema: unknown): number => {
    if (typeof schema !== "object" || schema === null) return 0;
    if (under.has(schema)) throw new Error("it refers to itself without an end");
    const known = looks.get(schema);
    if (known !== undefined) return known;
    under.add(schema);
    const sum = schemasOfSameValue(root, schema).reduce<number>((all, one) => all + looksOf(one), 1);
    under.delete(schema);
    if (sum > MAX_SCHEMAS_PER_VALUE)
      throw new Error(`more than ${MAX_SCHEMAS_PER_VALUE} of its schemas apply to one value`);
    looks.set(schema, sum);
    return sum;
  };
  const seen = new Set<unknown>();
  const waiting: unknown[] = [root];
  for (let one = waiting.pop(); one !== undefined; one = waiting.pop()) {
    if (typeof one !== "object" || one === null || seen.has(one)) continue;
    seen.add(one);
    if (!Array.isArray(one)) looksOf(one);
    waiting.push(...Object.values(one));
  }
}

function schemasOfSameValue(root: object, schema: object): unknown[] {
  const below = Object.entries(schema).filter(([key]) => OF_SAME_VALUE.includes(key));
  const reference = Object.entries(schema).find(([key]) => key === "$ref")?.[1];
  return [
    ...below.flatMap(([, list]) => list),
    ...(typeof reference === "string" ? [resolvePointer(root, reference)] : []),
  ];
}

/** The target of a reference within the document; undefined if there is none or it is in another document. */
function resolvePointer(root: object, reference: string): unknown {
  if (reference === "#") return root;
  if (!reference.startsWith("#/")) return undefined;
  return reference
    .slice(2)
    .split("/")
    .map((part) => part.replaceAll("~1", "/").replaceAll("~0", "~"))
    .reduce<unknown>((value, part) => Object.entries(Object(value)).find(([key]) => key === part)?.[1], root);
}
