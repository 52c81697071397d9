import { z } from "zod";

/**
 * A JSON Schema as what checks a value, for the schemas of others: tools, plugins, a run's answer. Throws an Error for
 * what zod can't read, and for one that no check of a value would come to the end of. A part that a recursive schema asks for
 * along several ways is looked at once by each of its schemas: zod keeps what it found.
 */
export function readSchema(schema: object): z.ZodType {
  refuseEndlessRecursion(schema);
  return z.fromJSONSchema({ ...schema });
}

/** Schemas that one value is looked at by, each time it is met: more of them are not one anybody wrote. */
const MAX_SCHEMAS_PER_VALUE = 10_000;
/** What stands below these is asked of the same value, not of a part of it. */
const OF_SAME_VALUE = ["allOf", "anyOf", "oneOf"];

/** A schema that refers to itself is one of parts within parts. Where it asks that of the same value there is no end. */
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
      throw new Error(`it asks more than ${MAX_SCHEMAS_PER_VALUE} schemas of one value`);
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

/** What a reference within the document names; undefined for nothing there, or another document. */
function resolvePointer(root: object, reference: string): unknown {
  if (reference === "#") return root;
  if (!reference.startsWith("#/")) return undefined;
  return reference
    .slice(2)
    .split("/")
    .map((part) => part.replaceAll("~1", "/").replaceAll("~0", "~"))
    .reduce<unknown>((value, part) => Object.entries(Object(value)).find(([key]) => key === part)?.[1], root);
}
