import { describe, expect, test } from "bun:test";
import { readFileSync, truncateSync } from "node:fs";
import { codeOf, failure } from "../../support/failure.ts";
import { Project } from "./project.ts";

interface Case {
  before: string | Uint8Array;
  old: string;
  new: string;
  all?: boolean;
  after: string | Uint8Array;
}

describe("an exact text is replaced and no other byte changes", () => {
  const GRID: Record<string, Case> = {
    "in one line": { before: "a\nb\nc\n", old: "b", new: "x", after: "a\nx\nc\n" },
    "over lines": { before: "a\nb\nc\n", old: "a\nb", new: "x", after: "x\nc\n" },
    "by nothing": { before: "a\nb\nc\n", old: "b\n", new: "", after: "a\nc\n" },
    "at the start": { before: "a\nb\n", old: "a", new: "x\ny", after: "x\ny\nb\n" },
    "at the end without a newline": { before: "a\nb", old: "b", new: "x", after: "a\nx" },
    everywhere: { before: "a b a b a", old: "a", new: "xx", all: true, after: "xx b xx b xx" },
    "once, with replace_all": { before: "a b", old: "a", new: "x", all: true, after: "x b" },
    "with what means something to a pattern": {
      before: "f(a.*) $1",
      old: "(a.*) $1",
      new: "$& \\1 $$",
      after: "f$& \\1 $$",
    },
    "in many languages": { before: "grüße 名前 🚀", old: "名前 🚀", new: "ñ", after: "grüße ñ" },
    "with Windows line endings that the model does not write": {
      before: "a\r\nb\r\nc\r\n",
      old: "a\nb",
      new: "x\ny",
      after: "x\r\ny\r\nc\r\n",
    },
    "with Windows line endings, when one line becomes two": {
      before: "a\r\nb\r\n",
      old: "b",
      new: "x\ny",
      after: "a\r\nx\r\ny\r\n",
    },
    "with Windows line endings that the model writes": {
      before: "a\r\nb\r\n",
      old: "a\r\nb",
      new: "x\r\ny",
      after: "x\r\ny\r\n",
    },
    "with mixed line endings": { before: "a\nb\r\nc\n", old: "b\r\nc", new: "x", after: "a\nx\n" },
    "behind a byte order mark": { before: "\uFEFFa\nb\n", old: "a\nb", new: "x", after: "\uFEFFx\n" },
    "beside what is not UTF-8": {
      before: new Uint8Array([0xfc, 0x61, 0xdf]),
      old: "a",
      new: "b",
      after: new Uint8Array([0xfc, 0x62, 0xdf]),
    },
  };
  for (const [title, { before, old, new: come, all, after }] of Object.entries(GRID)) {
    test(title, async () => {
      using project = new Project();
      project.put("f.txt", before);
      expect(await project.edit(old, come, { replace_all: all })).toStartWith("Edited f.txt");
      expect(readFileSync(project.path("f.txt"))).toEqual(Buffer.from(after));
      expect(project.notes.changed).toEqual([project.path("f.txt")]);
    });
  }
});

describe("the answer is a short diff", () => {
  const GRID: [string, string, string, string, string][] = [
    [
      "of one line",
      "1\n2\n3\n4\n5\n6\n7\n8\n9\n",
      "5",
      "five",
      "@@ -2,7 +2,7 @@\n 2\n 3\n 4\n-5\n+five\n 6\n 7\n 8",
    ],
    ["at the start", "1\n2\n3\n4\n5\n", "1", "one\nuno", "@@ -1,4 +1,5 @@\n-1\n+one\n+uno\n 2\n 3\n 4"],
    ["at the end", "1\n2\n3\n4\n5", "5", "five", "@@ -2,4 +2,4 @@\n 2\n 3\n 4\n-5\n+five"],
    ["of lines taken out", "1\n2\n3\n4\n", "2\n3\n", "", "@@ -1,4 +1,2 @@\n 1\n-2\n-3\n 4"],
    ["of the only line", "1", "1", "2", "@@ -1,1 +1,1 @@\n-1\n+2"],
  ];
  for (const [title, before, old, come, diff] of GRID) {
    test(title, async () => {
      using project = new Project();
      project.put("f.txt", before);
      expect(await project.edit(old, come)).toBe(`Edited f.txt:\n${diff}`);
    });
  }

  test("of the first changes when there are many", async () => {
    using project = new Project();
    project.put("f.txt", "a\n\n\n\n\n\n\n\n".repeat(100));
    const answer = await project.edit("a", "b\nc", { replace_all: true });
    expect(answer).toStartWith("Edited f.txt 100 occurrences:\n@@ -1,4 +1,5 @@\n");
    expect(answer).toContain("@@ -14,7 +16,8 @@");
    expect(answer).toEndWith("[… and 97 more changes]");
  });

  test("truncated when much is changed", async () => {
    using project = new Project();
    project.put("f.txt", "a");
    const come = `${"x".repeat(1000)}\n`.repeat(5000);
    expect((await project.edit("a", come)).length).toBeLessThan(20_000);
  });
});

describe("an old_string that does not occur exactly once changes nothing", () => {
  const GRID: [string, string, string, RegExp][] = [
    ["occurs twice", "a\nb\na\n", "a", /occurs 2 times, in lines 1, 3.*replace_all/],
    ["occurs often", "a\n".repeat(50), "a", /occurs 50 times, in lines 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, …/],
    [
      "has other indentation",
      "if (x) {\n\treturn 1;\n}\n",
      "if (x) {\n    return 1;\n}",
      /other whitespace it is at line 1[\s\S]*\treturn 1;/,
    ],
    ["has a space too many", "a  b\n", "a b", /other whitespace it is at line 1[\s\S]*a {2}b/],
    [
      "has a word wrong",
      "const total = sum(values);\n",
      "const total = sum(value);",
      /line most like its first line is line 1:\nconst total = sum\(values\);/,
    ],
    ["was copied with line numbers", "a\nb\n", "1\ta\n2\tb", /line numbers that Read shows/],
    ["is like nothing in the file", "a\nb\n", "something else", /was not found\. It must be exactly/],
  ];
  for (const [title, before, old, message] of GRID) {
    test(title, async () => {
      using project = new Project();
      project.put("f.txt", before);
      const error = await failure(project.edit(old, "new"));
      expect(error.code).toBe("INVALID");
      expect(error.message).toMatch(message);
      expect(project.text("f.txt")).toBe(before);
      expect(project.notes.changed).toEqual([]);
    });
  }

  test("is the same as the new one", async () => {
    using project = new Project();
    project.put("f.txt", "a");
    expect(await codeOf(project.edit("a", "a"))).toBe("INVALID");
  });
});

describe("an empty old_string", () => {
  test("creates a new file with its folders", async () => {
    using project = new Project();
    expect(await project.edit("", "x", { path: "a/b.txt" })).toBe("Created a/b.txt (1 bytes).");
    expect(project.text("a/b.txt")).toBe("x");
  });

  test("fills an empty file", async () => {
    using project = new Project();
    project.put("f.txt", "");
    await project.edit("", "x");
    expect(project.text("f.txt")).toBe("x");
  });

  test("does not change a file that is not empty", async () => {
    using project = new Project();
    project.put("f.txt", "old");
    expect(await codeOf(project.edit("", "x"))).toBe("INVALID");
    expect(project.text("f.txt")).toBe("old");
  });
});

describe("an edit fails with the reason for", () => {
  test("a missing file, with the nearest name", async () => {
    using project = new Project();
    project.put("index.ts", "x");
    const error = await failure(project.edit("x", "y", { path: "indx.ts" }));
    expect(error.code).toBe("NOT_FOUND");
    expect(error.message).toContain("index.ts");
  });

  test("a binary file", async () => {
    using project = new Project();
    project.put("f.txt", new Uint8Array([1, 0, 2]));
    expect((await failure(project.edit("a", "b"))).message).toContain("binary");
  });

  test("a huge file", async () => {
    using project = new Project();
    truncateSync(project.put("f.txt", "a line\n".repeat(20_000)), 200 * 1024 * 1024);
    const error = await failure(project.edit("a", "b"));
    expect(error.code).toBe("INVALID");
    expect(error.message).toContain("8.0 MiB");
  });

  test("more occurrences than the limit", async () => {
    using project = new Project();
    project.put("f.txt", "a".repeat(20_000));
    expect(await codeOf(project.edit("a", "b", { replace_all: true }))).toBe("INVALID");
  });
});
