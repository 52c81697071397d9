/** Checks the final answer of a run against its JSON Schema. */

import type { z } from "zod";
import { messageOf } from "../../lib/error-detail.ts";
import { issueText } from "../../lib/issue-text.ts";
import { SyscallError } from "../../plugin/index.ts";
import { readSchema } from "../../vfs/json-schema.ts";

/** A parsed answer, or what is wrong with it, in words for the model. */
type Reading = { output: unknown; text: string } | { problem: string };

/** The JSON Schema that a run's answer must fit (`--output-schema`). */
export class OutputSchema {
  readonly #type: z.ZodType;

  /** Fails with INVALID if it is not a JSON Schema, or if a part of it can't be checked. */
  constructor(schema: object) {
    this.#type = compiled(schema);
  }

  /** Parses an answer that is JSON, alone or in one code fence. `text` is the document without the fence. */
  read(answer: string): Reading {
    const document = answer.trim();
    const text = FENCED.exec(document)?.[1] ?? document;
    let output: unknown;
    try {
      output = JSON.parse(text);
      const { success, error } = this.#type.safeParse(output);
      if (!success) return { problem: issueText(error) };
      // Too deeply nested JSON can be parsed but not written, so it can't be recorded.
      JSON.stringify(output);
    } catch (error) {
      if (error instanceof RangeError) return { problem: "it is nested too deeply" };
      if (!(error instanceof SyntaxError)) throw error;
      const beginning = answer.length > QUOTED_CHARS ? `${answer.slice(0, QUOTED_CHARS)}…` : answer;
      const problem = `it is not one JSON document (${error.message}); it begins`;
      return { problem: `${problem} ${JSON.stringify(beginning)}` };
    }
    return { output, text };
  }
}

/** Limited because the schema is part of the prompt. */
const MAX_SCHEMA_CHARS = 64 * 1024;
const QUOTED_CHARS = 60;

const FENCED = /^```[a-z]*\n([\s\S]*?)\n?```$/i;

function compiled(schema: object): z.ZodType {
  try {
    if (JSON.stringify(schema).length > MAX_SCHEMA_CHARS) {
      const limit = `${MAX_SCHEMA_CHARS} characters`;
      throw invalidSchema(`it is longer than ${limit}, and the prompt contains the whole schema`);
    }
    return readSchema(checkable(schema, "#"));
  } catch (error) {
    if (error instanceof SyscallError) throw error;
    if (error instanceof RangeError) throw invalidSchema("it is nested too deeply");
    throw invalidSchema(messageOf(error));
  }
}

function invalidSchema(why: string): SyscallError {
  return new SyscallError("INVALID", `output_schema: expected a JSON Schema that can be checked: ${why}.`);
}

/** Keywords that apply to one type only. Without that type beside them, zod ignores them. */
const KEYWORDS = {
  object:
    "properties required additionalProperties patternProperties propertyNames minProperties maxProperties",
  array: "items prefixItems contains minItems maxItems uniqueItems",
  string: "minLength maxLength pattern format",
  number: "minimum maximum exclusiveMinimum exclusiveMaximum multipleOf",
};
const TYPE_OF_KEYWORD = new Map(
  Object.entries(KEYWORDS).flatMap(([type, keywords]) =>
    keywords.split(" ").map((keyword) => [keyword, type] as const),
  ),
);
/** Keywords that hold one schema, a list of schemas, or schemas by name. */
const ONE = ["items", "additionalProperties", "propertyNames", "contains"];
const SEVERAL = ["prefixItems", "anyOf", "oneOf", "allOf"];
const NAMED = ["properties", "patternProperties", "$defs", "definitions"];

/** Completes what zod would ignore so that it is checked. Fails with the path of anything that can't be. */
function checkable(schema: unknown, at: string): Record<string, unknown> {
  if (!isObject(schema))
    throw invalidSchema(`${at} is ${JSON.stringify(schema) ?? "nothing"}, which is no schema`);
  const keyword = Object.keys(schema).find((key) => TYPE_OF_KEYWORD.has(key));
  if (keyword !== undefined && "$ref" in schema) throw invalidSchema(`${at} has ${keyword} beside $ref`);
  if (keyword !== undefined && schema.type === undefined) {
    const type = TYPE_OF_KEYWORD.get(keyword);
    throw invalidSchema(`${at} has ${keyword} and no type; write "type": "${type}" beside it`);
  }
  const fixed = [...(Array.isArray(schema.enum) ? schema.enum : []), schema.const];
  if (fixed.some((value) => typeof value === "object" && value !== null)) {
    throw invalidSchema(`${at} has an object or a list in enum or const; describe it by its properties`);
  }
  const result = { ...schema };
  for (const key of ONE) if (isObject(schema[key])) result[key] = checkable(schema[key], `${at}/${key}`);
  for (const key of SEVERAL) {
    const list = schema[key];
    if (Array.isArray(list)) result[key] = list.map((one, n) => subschema(one, `${at}/${key}/${n}`));
  }
  for (const key of NAMED) {
    if (schema[key] === undefined) continue;
    if (!isObject(schema[key])) throw invalidSchema(`${at}/${key} is no mapping of names to schemas`);
    const entries = Object.entries(schema[key]);
    const named = entries.map(([name, one]) => [name, subschema(one, `${at}/${key}/${name}`)]);
    result[key] = Object.fromEntries(named);
  }
  return completed(result);
}

/** `true` and `false` are schemas too. */
function subschema(schema: unknown, at: string): unknown {
  return typeof schema === "boolean" ? schema : checkable(schema, at);
}

/** zod checks `required` only for properties that it knows, and a list's length only if it knows its items. */
function completed(schema: Record<string, unknown>): Record<string, unknown> {
  const { required, properties } = schema;
  if (Array.isArray(required)) {
    const missing = required.map((name) => [String(name), {}]);
    schema.properties = { ...Object.fromEntries(missing), ...(isObject(properties) ? properties : {}) };
  }
  if (schema.minItems !== undefined || schema.maxItems !== undefined) schema.items ??= {};
  return schema;
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
