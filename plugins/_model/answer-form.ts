import type { JSONSchema7, LanguageModelV4CallOptions } from "@ai-sdk/provider";
import type { LLMRequest } from "rnix/plugin";

/** The schema of an answer, and what of it decides how far a provider can hold its model to it. */
interface AnswerForm extends Required<Pick<LanguageModelV4CallOptions, "responseFormat">> {
  /** It asks for an object, as some providers demand. */
  isObject: boolean;
  /** No object in it may have other properties than those that are named. */
  closed: boolean;
  /** Closed, every property required, and no keyword that "strict" providers refuse. */
  strict: boolean;
}

/** undefined: no form was asked for. Where a driver leaves it out, the prompt has it, and the kernel checks. */
export function answerForm({ output_schema }: LLMRequest): AnswerForm | undefined {
  if (output_schema === undefined) return undefined;
  const schema = output_schema satisfies JSONSchema7;
  const all = [...below(output_schema)];
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

/** A schema and all that it is made of. */
function* below(schema: unknown): Generator<Schema> {
  if (!isObject(schema)) return;
  yield schema;
  for (const key of ["items", "additionalProperties"]) yield* below(schema[key]);
  for (const key of ["anyOf", "oneOf", "allOf", "prefixItems"]) {
    const list = schema[key];
    if (Array.isArray(list)) for (const one of list) yield* below(one);
  }
  for (const key of ["properties", "patternProperties", "$defs", "definitions"]) {
    const named = schema[key];
    if (isObject(named)) for (const one of Object.values(named)) yield* below(one);
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

function isObject(value: unknown): value is Schema {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
