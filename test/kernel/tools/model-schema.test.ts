import { expect, test } from "bun:test";
import { checkToolInput } from "../../../src/kernel/tools/device-call.ts";
import { modelSchema } from "../../../src/kernel/tools/tool-catalog.ts";

test("leaves out keywords without meaning for a model, at every depth", () => {
  const shown = modelSchema({
    $schema: "http://json-schema.org/draft-07/schema#",
    $comment: "made by a generator",
    title: "searchArguments",
    type: "object",
    properties: {
      query: { type: "string", title: "Query", description: "query", minLength: 1 },
      output_mode: { type: "string", title: "Output mode", description: "How results are written." },
      page: { type: "integer", minimum: 1, maximum: 100 },
      filter: {
        anyOf: [
          {
            type: "object",
            properties: { by: { type: "string" } },
            additionalProperties: false,
            required: [],
          },
          { type: "null" },
        ],
      },
      tags: { type: "array", minItems: 1, items: { type: "object", additionalProperties: false } },
    },
    required: ["query"],
    additionalProperties: false,
    $defs: { day: { title: "Day", type: "string", pattern: "^\\d{4}" } },
  });
  expect(shown).toEqual({
    type: "object",
    properties: {
      query: { type: "string" },
      output_mode: { type: "string", description: "How results are written." },
      page: { type: "integer", maximum: 100 },
      filter: { anyOf: [{ type: "object", properties: { by: { type: "string" } } }, { type: "null" }] },
      tags: { type: "array", items: { type: "object" } },
    },
    required: ["query"],
    $defs: { day: { type: "string", pattern: "^\\d{4}" } },
  });
});

test("contains every meaningful keyword, and properties that are named like keywords", () => {
  const schema = {
    type: "object",
    properties: {
      title: { type: "string" },
      description: { type: "string" },
      additionalProperties: { type: "boolean" },
      minimum: { type: "number", minimum: 2, default: { title: "x", additionalProperties: false } },
      n: { type: "integer", title: "How many of them", exclusiveMinimum: 0, minimum: -1 },
      map: { type: "object", additionalProperties: { type: "string" } },
      mode: { enum: ["$schema", "title"], const: "title" },
    },
    required: ["title"],
    additionalProperties: true,
  };
  expect(modelSchema(schema)).toEqual(schema);
});

test("does not change the check's schema: a call with an unknown field is refused with the field's name", () => {
  const input = {
    type: "object",
    properties: { a: { type: "string", minLength: 1 } },
    additionalProperties: false,
  };
  const before = structuredClone(input);
  modelSchema(input);
  expect(input).toEqual(before);
  const check = (given: Record<string, unknown>) => () =>
    checkToolInput({ name: "T", description: "", input }, { id: "1", name: "T", input: given });
  expect(check({ a: "x", bogus: 1 })).toThrow(/bogus/);
  expect(check({ a: "" })).toThrow(/a:/);
});

test("ends on a schema of any depth", () => {
  let schema: Record<string, unknown> = { type: "string" };
  for (let depth = 0; depth < 100_000; depth++) schema = { not: schema };
  expect(modelSchema(schema)).toHaveProperty("not");
});
