import { describe, expect, test } from "bun:test";
import { readSchema } from "../../src/vfs/json-schema.ts";

const NODE = { type: "object", properties: { next: { $ref: "#/$defs/node" } } };

describe("a schema that no check would come to the end of is refused", () => {
  test.each<[string, object]>([
    ["itself", { $ref: "#" }],
    ["itself beside a type", { type: "object", $ref: "#" }],
    ["a name that is itself", { $ref: "#/$defs/a", $defs: { a: { $ref: "#/$defs/a" } } }],
    [
      "two names in turn",
      { $ref: "#/$defs/a", $defs: { a: { $ref: "#/$defs/b" }, b: { $ref: "#/$defs/a" } } },
    ],
    ["one of its own choices", { anyOf: [{ type: "string" }, { $ref: "#" }] }],
    ["all of itself", { allOf: [{ type: "object" }, { $ref: "#" }] }],
    [
      "a part that is itself",
      {
        type: "object",
        properties: { a: { $ref: "#/$defs/a" } },
        $defs: { a: { oneOf: [{ $ref: "#/$defs/a" }] } },
      },
    ],
    ["a name with a slash", { $ref: "#/$defs/a~1b", $defs: { "a/b": { $ref: "#/$defs/a~1b" } } }],
  ])("%s", (_, schema) => {
    expect(() => readSchema(schema)).toThrow("refers to itself");
  });

  test("one that doubles with each level", () => {
    const levels = Array.from({ length: 40 }, (_, n) => [
      `d${n}`,
      n === 39
        ? { type: "string" }
        : { anyOf: [{ $ref: `#/$defs/d${n + 1}` }, { $ref: `#/$defs/d${n + 1}` }] },
    ]);
    expect(() => readSchema({ $ref: "#/$defs/d0", $defs: Object.fromEntries(levels) })).toThrow("more than");
  });
});

test.each<[string, object, unknown, unknown]>([
  [
    "parts within parts",
    { $ref: "#/$defs/node", $defs: { node: NODE } },
    { next: { next: {} } },
    { next: { next: 1 } },
  ],
  ["lists of itself", { type: "array", items: { $ref: "#" } }, [[], [[]]], [[1]]],
  [
    "a choice that goes deeper",
    { anyOf: [{ type: "string" }, { type: "array", items: { $ref: "#" } }] },
    [["a"], "b"],
    [1],
  ],
  [
    "one part twice",
    {
      type: "object",
      properties: { a: { $ref: "#/$defs/s" }, b: { $ref: "#/$defs/s" } },
      $defs: { s: { type: "string" } },
    },
    { a: "x", b: "y" },
    { a: 1 },
  ],
])("a schema of %s checks as it says", (_, schema, good, bad) => {
  const type = readSchema(schema);
  expect(type.safeParse(good).success).toBe(true);
  expect(type.safeParse(bad).success).toBe(false);
});

test("a schema word that is used as a property name is no schema", () => {
  const schema = { type: "object", properties: { $ref: { type: "string" }, allOf: { type: "string" } } };
  expect(readSchema(schema).safeParse({ $ref: "#", allOf: "x" }).success).toBe(true);
});

describe("a schema that refers to itself twice checks each part once per reference, not twice per level", () => {
  const self = { $ref: "#/$defs/node" };
  const branch = { type: "object", properties: { next: self }, required: ["next"] };
  test.each(["anyOf", "oneOf", "allOf"])("%s", (word) => {
    const node = { anyOf: [{ type: "string" }, { [word]: [branch, { ...branch, minProperties: 1 }] }] };
    const type = readSchema({ ...self, $defs: { node } });
    let looks = 0;
    let value: unknown = 1;
    for (let level = 0; level < 14; level++) {
      const below = value;
      value = {
        get next() {
          looks++;
          return below;
        },
      };
    }
    expect(type.safeParse(value).success).toBe(false);
    expect(looks).toBeGreaterThan(0);
    expect(looks).toBeLessThan(14 * 10);
  });
});
