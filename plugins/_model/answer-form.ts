/** How strictly a provider enforces the schema of an answer. */

import type { JSONSchema7, LanguageModelV4CallOptions } from "@ai-sdk/provider";
import type { LLMRequest } from "rnix/plugin";
import { isObject } from "../_lib/json.ts";

/** The schema of an answer, and the properties that decide how strictly a provider can enforce it. */
interface AnswerForm extends Required<Pick<LanguageModelV4CallOptions, "responseFormat">> {
  /** The answer is an object, as some providers demand. */
  isObject: boolean;
  /** No object in it allows additional properties. */
  closed: boolean;
  /** Closed, every property required, and no keyword that "strict" providers refuse. */
  strict: boolean;
}

/**
 * The requested form of the answer; undefined if none is requested. The prompt names it too, and the kernel checks it.
 */
export function answerForm({ output_schema }: LLMRequest): AnswerForm | undefined {
  if (output_schema === undefined) return undefined;
  const schema = output_schema satisfies JSONSchema7;
  const all = [...schemasIn(output_schema)];
  const objects = all.filter((one) => one.type === "object" || one.properties !== undefined);
  const closed = objects.every((one) => one.additionalProperties === false);
  return {
    responseFormat: { type: "json", schema, name: "answer" },
    isObject: "type" in output_schema && output_schema.type === "object",
    closed,
    strict: closed && objects.every(allRequired) && all.every(onlyPlainKeywords),
  };
}

type Schema = Record<string, unknown>;

function* schemasIn(schema: unknown): Generator<Schema> {
  if (!isObject(schema)) return;
  yield schema;
  for (const key of ["items", "additionalProperties"]) yield* schemasIn(schema[key]);
  for (const key of ["anyOf", "oneOf", "allOf", "prefixItems"]) {
    const list = schema[key];
    if (Array.isArray(list)) for (const one of list) yield* schemasIn(one);
  }
  for (const key of ["properties", "patternProperties", "$defs", "definitions"]) {
    const named = schema[key];
    if (isObject(named)) for (const one of Object.values(named)) yield* schemasIn(one);
  }
}

function allRequired({ properties, required }: Schema): boolean {
  const needed = new Set(Array.isArray(required) ? required : []);
  return Object.keys(isObject(properties) ? properties : {}).every((name) => needed.has(name));
}

function onlyPlainKeywords(schema: Schema): boolean {
  return Object.keys(schema).every((key) => PLAIN.has(key));
}

const PLAIN: ReadonlySet<string> = new Set([
  "$schema",
  "$ref",
  "$defs",
  "title",
  "description",
  "type",
  "properties",
  "required",
  "additionalProperties",
  "items",
  "anyOf",
  "enum",
  "const",
]);
