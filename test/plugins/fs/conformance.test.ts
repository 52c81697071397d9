import { expect, test } from "bun:test";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { z } from "zod";
import plugin from "../../../plugins/fs/index.ts";
import { operation } from "../../../plugins/fs/operations.ts";
import { O_RDONLY } from "../../../src/plugin/index.ts";
import { describePlugin } from "../../support/conformance/plugin.ts";

describePlugin("fs", () => import("../../../plugins/fs/index.ts"), {
  setup: async (dir) => {
    writeFileSync(join(dir, "a.txt"), "hello\nworld\n");
    return {};
  },
  operations: [
    {
      title: "reads a file",
      device: "/dev/fs",
      input: { op: "read", path: "a.txt" },
      answer: (text) => expect(text).toBe("1\thello\n2\tworld"),
    },
    {
      title: "names a missing file",
      device: "/dev/fs",
      input: { op: "read", path: "b.txt" },
      error: "NOT_FOUND",
    },
    {
      title: "writes a file",
      device: "/dev/fs",
      input: { op: "write", path: "new/b.txt", content: "x" },
      answer: async (text, dir) => {
        expect(text).toContain("new/b.txt");
        expect(await Bun.file(join(dir, "new/b.txt")).text()).toBe("x");
      },
    },
    {
      title: "edits a file",
      device: "/dev/fs",
      input: { op: "edit", path: "new/b.txt", old_string: "x", new_string: "y" },
      answer: (text) => expect(text).toContain("+y"),
    },
    {
      title: "finds files",
      device: "/dev/fs",
      input: { op: "glob", pattern: "*.txt" },
      answer: (text) => expect(text).toBe("a.txt"),
    },
    {
      title: "searches files",
      device: "/dev/fs",
      input: { op: "grep", pattern: "w.rld", output_mode: "content" },
      answer: (text) => expect(text).toBe("a.txt:2:world"),
    },
    {
      title: "gives a file's bytes by its path",
      device: "/dev/fs/a.txt",
      flags: O_RDONLY,
      input: null,
      answer: (text) => expect(text).toBe("hello\nworld\n"),
    },
  ],
  unknown: "/dev/fs/no/such/file",
});

test("the schema that the model sees is the input that the driver takes", () => {
  const tools = plugin.devices["/dev/fs"].tools;
  const taken = z.toJSONSchema(operation, { io: "input" });
  const options = z
    .object({
      oneOf: z.array(
        z.object({ properties: z.record(z.string(), z.unknown()), required: z.array(z.string()) }),
      ),
    })
    .parse(taken).oneOf;
  expect(options.length).toBe(tools.length);
  for (const [index, tool] of tools.entries()) {
    const shown = z
      .object({ properties: z.record(z.string(), z.looseObject({})), required: z.array(z.string()) })
      .parse(tool.input);
    const { op, ...fields } = options[index]?.properties ?? {};
    expect(op).toMatchObject({ const: tool.op });
    expect(Object.keys(shown.properties).sort()).toEqual(Object.keys(fields).sort());
    expect(["op", ...shown.required].sort()).toEqual(options[index]?.required.sort() ?? []);
    for (const [name, field] of Object.entries(shown.properties)) {
      const { description: _, ...rules } = field;
      // An upper bound is the driver's alone: the model meets it in the error of a call that crosses it.
      const { maximum: _bound, ...checked } = z.looseObject({}).parse(fields[name]);
      expect(rules, `${tool.name}.${name}`).toEqual(checked);
    }
  }
});
