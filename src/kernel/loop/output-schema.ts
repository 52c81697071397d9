import type { z } from "zod";
import { SyscallError } from "../../plugin/index.ts";
import { readSchema } from "../../vfs/json-schema.ts";

/** What an answer says, or what is wrong with it: for the model that is to correct it. */
type Reading = { output: unknown; text: string } | { problem: string };

/** The form that a run's answer must have (`--output-schema`). */
export class OutputSchema {
  readonly #type: z.ZodType;

  /** INVALID for what is no JSON Schema, or is one whose demands can't all be checked. */
  constructor(schema: object) {
    this.#type = compiled(schema);
  }

  /** An answer as JSON: alone, or in a single code fence. `text` is the document by itself. */
  read(answer: string): Reading {
    const text = unfenced(answer.trim());
    let output: unknown;
    try {
      output = JSON.parse(text);
      const { success, error } = this.#type.safeParse(output);
      if (!success) return { problem: issueList(error.issues) };
      // What is nested so deeply that it can't be written again can't be recorded either.
      JSON.stringify(output);
    } catch (error) {
      if (error instanceof RangeError) return { problem: "it is nested too deeply" };
      if (!(error instanceof SyntaxError)) throw error;
      return { problem: `it is not one JSON document (${error.message}); it begins ${quoted(answer)}` };
    }
    return { output, text };
  }
}

/** Characters of a schema: it is part of the prompt. */
const MAX_SCHEMA_CHARS = 64 * 1024;
const MAX_ISSUES = 10;
const QUOTED_CHARS = 60;

const FENCED = /^```[a-z]*\n([\s\S]*?)\n?```$/i;

function unfenced(text: string): string {
  return FENCED.exec(text)?.[1] ?? text;
}

function issueList(issues: readonly z.core.$ZodIssue[]): string {
  const lines = issues
    .slice(0, MAX_ISSUES)
    .map(({ path, message }) => `${path.join(".") || "it"}: ${message}`);
  if (issues.length > MAX_ISSUES) lines.push(`and ${issues.length - MAX_ISSUES} more`);
  return lines.join("; ");
}

function quoted(text: string): string {
  return JSON.stringify(text.length > QUOTED_CHARS ? `${text.slice(0, QUOTED_CHARS)}…` : text);
}

function compiled(schema: object): z.ZodType {
  try {
    if (JSON.stringify(schema).length > MAX_SCHEMA_CHARS) {
      throw invalidSchema(`it is longer than ${MAX_SCHEMA_CHARS} characters, and is told to the model whole`);
    }
    return readSchema(checkable(schema, "#"));
  } catch (error) {
    if (error instanceof SyscallError) throw error;
    if (error instanceof RangeError) throw invalidSchema("it is nested too deeply");
    throw invalidSchema(error instanceof Error ? error.message : String(error));
  }
}

function invalidSchema(why: string): SyscallError {
  return new SyscallError("INVALID", `output_schema: expected a JSON Schema that can be checked: ${why}.`);
}

/** Keywords that say something of one type only: without that type beside them zod passes everything. */
const TYPE_OF_KEYWORD: Record<string, string> = {
  properties: "object",
  required: "object",
  additionalProperties: "object",
  patternProperties: "object",
  propertyNames: "object",
  minProperties: "object",
  maxProperties: "object",
  items: "array",
  prefixItems: "array",
  contains: "array",
  minItems: "array",
  maxItems: "array",
  uniqueItems: "array",
  minLength: "string",
  maxLength: "string",
  pattern: "string",
  format: "string",
  minimum: "number",
  maximum: "number",
  exclusiveMinimum: "number",
  exclusiveMaximum: "number",
  multipleOf: "number",
};
/** Below these stand schemas: one, a list of them, or some by name. */
const ONE = ["items", "additionalProperties", "propertyNames", "contains"];
const SEVERAL = ["prefixItems", "anyOf", "oneOf", "allOf"];
const NAMED = ["properties", "patternProperties", "$defs", "definitions"];

/** The same schema, with what zod would pass over said so that it is checked, or refused with its place. */
function checkable(schema: unknown, at: string): Record<string, unknown> {
  if (!isObject(schema))
    throw invalidSchema(`${at} is ${JSON.stringify(schema) ?? "nothing"}, which is no schema`);
  const said = Object.keys(schema).find((key) => Object.hasOwn(TYPE_OF_KEYWORD, key));
  if (said !== undefined && "$ref" in schema) throw invalidSchema(`${at} has ${said} beside $ref`);
  if (said !== undefined && schema.type === undefined) {
    throw invalidSchema(`${at} has ${said} and no type; write "type": "${TYPE_OF_KEYWORD[said]}" beside it`);
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
    const named = Object.entries(schema[key]).map(([name, one]) => [
      name,
      subschema(one, `${at}/${key}/${name}`),
    ]);
    result[key] = Object.fromEntries(named);
  }
  return completed(result);
}

/** `true` and `false` are schemas, too. */
function subschema(schema: unknown, at: string): unknown {
  return typeof schema === "boolean" ? schema : checkable(schema, at);
}

/** zod looks at `required` for the properties it knows, and at a list's length only where it knows its items. */
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
