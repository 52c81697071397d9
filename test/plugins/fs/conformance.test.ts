import { expect } from "bun:test";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
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
