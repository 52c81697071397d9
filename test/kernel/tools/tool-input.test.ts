import { describe, expect, test } from "bun:test";
import { checkToolInput, isChecked } from "../../../src/kernel/tools/device-call.ts";
import type { ToolCall, ToolDef } from "../../../src/plugin/index.ts";

const tool = (input: object): ToolDef => ({ name: "T", description: "", input });
const call = (input: Record<string, unknown>, more: Partial<ToolCall> = {}): ToolCall => ({
  id: "1",
  name: "T",
  input,
  ...more,
});
const strict = tool({
  type: "object",
  properties: { path: { type: "string" }, n: { type: "integer", minimum: 1 }, kind: { enum: ["a", "b"] } },
  required: ["path"],
  additionalProperties: false,
});

describe("the input of a tool call", () => {
  test.each([[{ path: "x" }], [{ path: "x", n: 3, kind: "b" }]])("%j fits", (input) => {
    expect(() => checkToolInput(strict, call(input))).not.toThrow();
  });

  test.each([
    [{}, /path/],
    [{ path: 3 }, /path/],
    [{ path: "x", n: 0 }, /n:/],
    [{ path: "x", n: 1.5 }, /n:/],
    [{ path: "x", kind: "c" }, /kind/],
    [{ path: "x", more: true }, /more/],
  ])("%j is INVALID and the field is named", (input, named) => {
    expect(() => checkToolInput(strict, call(input))).toThrow(named);
    expect(() => checkToolInput(strict, call(input))).toThrow(expect.objectContaining({ code: "INVALID" }));
  });

  test("that was no JSON object is INVALID with the text that came", () => {
    const broken = call({}, { invalid: { text: '{"path": ', reason: "unexpected end" } });
    expect(() => checkToolInput(strict, broken)).toThrow(/unexpected end.*\{"path": /s);
  });
});

test("a schema that refers to itself without an end delays nothing: the tool is offered unchecked", () => {
  const endless = {
    type: "object",
    properties: { a: { $ref: "#/$defs/a" } },
    $defs: { a: { $ref: "#/$defs/a" } },
  };
  expect(isChecked(tool(endless))).toBe(false);
  expect(() => checkToolInput(tool(endless), call({ a: 1 }))).not.toThrow();
});

test("an unreadable schema is offered unchecked, and marked as such", () => {
  const foreign = tool({ type: "object", properties: { a: { $ref: "https://example.com/schema" } } });
  expect(isChecked(strict)).toBe(true);
  expect(isChecked(foreign)).toBe(false);
  expect(() => checkToolInput(foreign, call({ a: 1 }))).not.toThrow();
});
