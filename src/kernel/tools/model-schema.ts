/** Simplifies the schema of a tool for a model. */

/** Deeper than any real schema; what is below is not simplified. */
const MAX_DEPTH = 32;
/** Keywords whose value is a schema, a list of schemas, or schemas by name. */
const ONE = ["items", "contains", "not", "if", "then", "else", "propertyNames", "additionalProperties"];
const LIST = ["anyOf", "allOf", "oneOf", "prefixItems"];
const BY_NAME = ["properties", "patternProperties", "$defs", "definitions", "dependentSchemas"];
/** Keywords about the document, not about the input. */
const OMITTED = new Set(["$schema", "$comment"]);
/** Bounds that no model would violate when they are this low. */
const TRIVIAL_BOUNDS: Record<string, number> = { minLength: 1, minItems: 1, minimum: 1, minProperties: 1 };

type Schema = Readonly<Record<string, unknown>>;

/**
 * Shortens a tool's input schema for the model, because each request carries it. The full schema still checks each
 * call, and a call that violates it fails with INVALID and the field's name.
 */
export function modelSchema(schema: object): object {
  return simplified({ ...schema }, "", 0);
}

function simplified(schema: Schema, name: string, depth: number): object {
  if (depth > MAX_DEPTH) return schema;
  const kept = Object.entries(schema).filter(([key, value]) => !isRedundant(key, value, schema, name));
  return Object.fromEntries(kept.map(([key, value]) => [key, simplifiedValue(key, value, depth + 1)]));
}

function simplifiedValue(key: string, value: unknown, depth: number): unknown {
  const below = (one: unknown, name = ""): unknown => (isSchema(one) ? simplified(one, name, depth) : one);
  if (ONE.includes(key)) return below(value);
  if (LIST.includes(key) && Array.isArray(value)) return value.map((one) => below(one));
  if (!BY_NAME.includes(key) || !isSchema(value)) return value;
  return Object.fromEntries(Object.entries(value).map(([name, one]) => [name, below(one, name)]));
}

function isRedundant(key: string, value: unknown, { description }: Schema, name: string): boolean {
  if (OMITTED.has(key)) return true;
  if (key === "additionalProperties") return value === false;
  if (key === "required") return Array.isArray(value) && value.length === 0;
  if (key === "title") return description !== undefined || name === "" || letters(value) === letters(name);
  if (key === "description") return letters(value) === "" || letters(value) === letters(name);
  const lowest = TRIVIAL_BOUNDS[key];
  return lowest !== undefined && typeof value === "number" && value >= 0 && value <= lowest;
}

/** A text reduced to letters and digits, so that `Output mode` equals `output_mode`. */
function letters(text: unknown): string {
  return typeof text === "string" ? text.toLowerCase().replace(/[^\p{L}\p{N}]/gu, "") : "";
}

function isSchema(value: unknown): value is Schema {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
