import { describe, expect, test } from "bun:test";
import { symlinkSync, truncateSync } from "node:fs";
import { join } from "node:path";
import { SyscallError } from "../../../src/plugin/index.ts";
import { Project } from "./project.ts";

function sample(): Project {
  const project = new Project();
  project.put("a.ts", "import x\nconst one = 1;\nconst two = 2;\n\nexport { one };\n");
  project.put("src/b.ts", "import y\nCONST three = 3;\n");
  project.put("src/c.md", "# const\n");
  return project;
}

describe("the three modes", () => {
  const GRID: [string, object, string][] = [
    ["names of files by default", { pattern: "const" }, "a.ts\nsrc/c.md"],
    [
      "matching lines",
      { pattern: "const", output_mode: "content" },
      "a.ts:2:const one = 1;\na.ts:3:const two = 2;\nsrc/c.md:1:# const",
    ],
    ["matching lines per file", { pattern: "const", output_mode: "count" }, "a.ts:2\nsrc/c.md:1"],
    ["without regard to case", { pattern: "const", case_insensitive: true }, "a.ts\nsrc/b.ts\nsrc/c.md"],
    [
      "only files with such a name",
      { pattern: "const", case_insensitive: true, glob: "*.ts" },
      "a.ts\nsrc/b.ts",
    ],
    [
      "only files with such a path",
      { pattern: "const", case_insensitive: true, glob: "src/**/*.{ts,md}" },
      "src/b.ts\nsrc/c.md",
    ],
    ["below a folder", { pattern: "const", path: "src" }, "src/c.md"],
    ["in one file", { pattern: "import", path: "src/b.ts", output_mode: "content" }, "src/b.ts:1:import y"],
    ["nothing", { pattern: "nowhere" }, "Nothing in . matches nowhere."],
    [
      "lines with those around them",
      { pattern: "two", output_mode: "content", context: 1 },
      "a.ts-2-const one = 1;\na.ts:3:const two = 2;\na.ts-4-",
    ],
    [
      "groups of lines apart from each other",
      { pattern: "import|export", output_mode: "content", context: 1, path: "a.ts" },
      "a.ts:1:import x\na.ts-2-const one = 1;\n--\na.ts-4-\na.ts:5:export { one };",
    ],
    [
      "lines around that touch, as one group",
      { pattern: "import|two", output_mode: "content", context: 1, path: "a.ts" },
      "a.ts:1:import x\na.ts-2-const one = 1;\na.ts:3:const two = 2;\na.ts-4-",
    ],
  ];
  for (const [title, input, answer] of GRID) {
    test(`show ${title}`, async () => {
      using project = sample();
      expect(await project.run({ op: "grep", ...input })).toBe(answer);
    });
  }
});

describe("lines are found in every kind of file", () => {
  const GRID: [string, string, string, string][] = [
    ["Windows line endings", "a\r\nb\r\n", "^a$", "f:1:a"],
    ["no newline at the end", "a\nb", "b$", "f:2:b"],
    ["a carriage return at the end of the file", "a\nb\r", "b", "f:2:b"],
    ["a byte order mark", "\uFEFFa\n", "^a", "f:1:a"],
    ["empty lines", "a\n\nb\n", "^$", "f:2:"],
    ["many languages", "grüße\n名前\n", "^.前$", "f:2:名前"],
  ];
  for (const [title, content, pattern, answer] of GRID) {
    test(title, async () => {
      using project = new Project();
      project.put("f", content);
      expect(await project.run({ op: "grep", pattern, output_mode: "content" })).toBe(answer);
    });
  }

  test("an empty file has none", async () => {
    using project = new Project();
    project.put("f", "");
    expect(await project.run({ op: "grep", pattern: "^" })).toBe("Nothing in . matches ^.");
  });

  for (const size of [65_534, 65_535, 65_536, 65_537, 131_072]) {
    test(`a line that ends ${size} bytes into the file, at a border of what is read at once`, async () => {
      using project = new Project();
      project.put("f", `${"é".repeat((size - 2) / 2)}\r\nneedle end\r\nlast\n`);
      expect(await project.run({ op: "grep", pattern: "^needle end$|é$|^last$", output_mode: "count" })).toBe(
        "f:3",
      );
    });
  }

  test("a long line is shown around its match, and marked as truncated", async () => {
    using project = new Project();
    project.put("f", `${"x".repeat(20_000)}needle${"y".repeat(200_000)}\n`);
    const answer = await project.run({ op: "grep", pattern: "needle", output_mode: "content" });
    expect(answer).toContain("xneedley");
    expect(answer).toContain("… [line of 220006 characters, cut]");
    expect(answer.length).toBeLessThan(700);
  });
});

describe("a result above a limit is truncated, with a notice, for", () => {
  test("lines", async () => {
    using project = new Project();
    project.put("f", "needle\n".repeat(1000));
    const lines = (await project.run({ op: "grep", pattern: "needle", output_mode: "content" })).split("\n");
    expect(lines.length).toBe(251);
    expect(lines.at(-1)).toContain("Stopped after 250 lines");
  });

  test("lines beyond head_limit", async () => {
    using project = new Project();
    project.put("f", "needle\n".repeat(10));
    expect(await project.run({ op: "grep", pattern: "needle", output_mode: "content", head_limit: 2 })).toBe(
      "f:1:needle\nf:2:needle\n[Stopped after 2 lines; there may be more. Narrow the search or raise head_limit.]",
    );
  });

  test("files", async () => {
    using project = new Project();
    for (let index = 0; index < 120; index++) project.put(`f${index}`, "needle");
    const lines = (await project.run({ op: "grep", pattern: "needle" })).split("\n");
    expect(lines.length).toBe(101);
    expect(lines.at(-1)).toContain("Stopped after 100 files");
  });

  test("text", async () => {
    using project = new Project();
    project.put("f", `${"needle ".repeat(70)}\n`.repeat(5000));
    const answer = await project.run({
      op: "grep",
      pattern: "needle",
      output_mode: "content",
      head_limit: 5000,
    });
    expect(answer.length).toBeLessThan(70_000);
    expect(answer).toContain("The answer is long enough");
  });
});

describe("the result leaves out, with a notice,", () => {
  test("binary files", async () => {
    using project = new Project();
    project.put("a.bin", "needle\0needle");
    project.put("b.txt", "needle");
    expect(await project.run({ op: "grep", pattern: "needle" })).toBe(
      "b.txt\n[Not searched: 1 binary file.]",
    );
    expect((await project.fails({ op: "grep", pattern: "needle", path: "a.bin" })).code).toBe("INVALID");
  });

  test("files over 50 MB", async () => {
    using project = new Project();
    truncateSync(project.put("big", "needle\n"), 200 * 1024 * 1024);
    expect(await project.run({ op: "grep", pattern: "needle" })).toContain(
      "[Not searched: 1 over 50.0 MiB.]",
    );
    expect((await project.fails({ op: "grep", pattern: "needle", path: "big" })).message).toContain(
      "50.0 MiB",
    );
  });

  test("skipped folders", async () => {
    using project = new Project();
    for (const path of [".git/config", "node_modules/m/index.js", ".rnix/data/x"])
      project.put(path, "needle");
    expect(await project.run({ op: "grep", pattern: "needle" })).toContain("Nothing");
    expect(await project.run({ op: "grep", pattern: "needle", path: "node_modules" })).toBe(
      "node_modules/m/index.js",
    );
  });

  test("symlinks, which lead outside or to what is searched anyway", async () => {
    using project = new Project();
    symlinkSync(join(project.outside, "secret.txt"), project.path("link.txt"));
    symlinkSync(project.outside, project.path("folder"));
    expect(await project.run({ op: "grep", pattern: "secret" })).toContain("Nothing");
  });
});

describe("a pattern never blocks the thread or the call", () => {
  const NASTY = ["(a+)+$", "(.*)(.*)(.*)(.*)x", "^(a|aa)+$", "(a*)*b", "a.{11}$b"];

  test("any pattern lets other work continue", async () => {
    using project = new Project();
    project.put("f", `${"a".repeat(3_000_000)}\n`.repeat(2));
    for (const pattern of NASTY) {
      let turns = 0;
      let running = true;
      const ticking = (async () => {
        for (; running; turns++) await new Promise<void>((resolve) => setImmediate(resolve));
      })();
      await project.run({ op: "grep", pattern, output_mode: "count" });
      running = false;
      await ticking;
      // 6 MB are read in 92 pieces and searched in slices: one long block would leave a handful of turns.
      expect(turns, pattern).toBeGreaterThan(20);
    }
  });

  test("a cancelled search ends", async () => {
    using project = new Project();
    project.put("f", `${"ab".repeat(10_000_000)}\n`);
    const controller = new AbortController();
    const failing = project.fails({ op: "grep", pattern: "(a|b|ab)*c" }, controller.signal);
    let turns = 0;
    const abort = (): void => {
      if (++turns < 5) setImmediate(abort);
      else controller.abort(new SyscallError("CANCELLED", "The run was stopped."));
    };
    abort();
    expect((await failing).code).toBe("CANCELLED");
  });
});
