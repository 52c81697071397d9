import { describe, expect, test } from "bun:test";
import { mkdirSync, symlinkSync, utimesSync } from "node:fs";
import { SyscallError } from "../../../src/plugin/index.ts";
import { Project } from "./project.ts";

/** Later in the list is older. */
function put(project: Project, names: string[]): void {
  for (const [index, name] of names.entries()) {
    const path = project.put(name, "x");
    utimesSync(path, 2_000_000_000 - index, 2_000_000_000 - index);
  }
}

describe("a pattern finds", () => {
  const FILES = ["a.ts", "b.js", "src/c.ts", "src/deep/d.tsx", "src/.hidden/e.ts", ".github/ci.yml"];
  const GRID: [string, object, string[]][] = [
    ["the files of one folder", { pattern: "*.ts" }, ["a.ts"]],
    [
      "files at any depth, hidden ones included",
      { pattern: "**/*.ts" },
      ["a.ts", "src/c.ts", "src/.hidden/e.ts"],
    ],
    ["one of several endings", { pattern: "**/*.{js,tsx}" }, ["b.js", "src/deep/d.tsx"]],
    ["everything", { pattern: "**/*" }, FILES],
    ["below a folder of the pattern", { pattern: "src/**/*.ts" }, ["src/c.ts", "src/.hidden/e.ts"]],
    ["below `path`", { pattern: "*.ts", path: "src" }, ["src/c.ts"]],
    ["a name without a wildcard", { pattern: "src/c.ts" }, ["src/c.ts"]],
    ["with ./ in front", { pattern: "./src/*.ts" }, ["src/c.ts"]],
    ["through .. within the project", { pattern: "src/../*.ts" }, ["a.ts"]],
    ["in a hidden folder", { pattern: ".github/*" }, [".github/ci.yml"]],
    ["one character", { pattern: "?.js" }, ["b.js"]],
    ["one of a set", { pattern: "[ab].*" }, ["a.ts", "b.js"]],
  ];
  for (const [title, input, names] of GRID) {
    test(title, async () => {
      using project = new Project();
      put(project, FILES);
      expect((await project.run({ op: "glob", ...input })).split("\n")).toEqual(names);
    });
  }

  test("by an absolute pattern inside the project", async () => {
    using project = new Project();
    put(project, FILES);
    expect(await project.run({ op: "glob", pattern: `${project.dir}/src/*.ts` })).toBe("src/c.ts");
  });
});

test("the newest files come first, and files beyond the limit are counted", async () => {
  using project = new Project();
  put(
    project,
    Array.from({ length: 130 }, (_, index) => `f${index}.txt`),
  );
  const lines = (await project.run({ op: "glob", pattern: "*" })).split("\n");
  expect(lines.slice(0, 3)).toEqual(["f0.txt", "f1.txt", "f2.txt"]);
  expect(lines.length).toBe(101);
  expect(lines.at(-1)).toBe("[… and 30 more. Narrow the pattern or raise limit.]");
  expect(await project.run({ op: "glob", pattern: "*", limit: 1 })).toBe(
    "f0.txt\n[… and 129 more. Narrow the pattern or raise limit.]",
  );
  expect((await project.run({ op: "glob", pattern: "*", limit: 130 })).split("\n").length).toBe(130);
});

describe("skipped folders are left out", () => {
  const SKIPPED = [".git/config", "node_modules/m/index.js", ".rnix/data/x", "sub/node_modules/n/index.js"];

  test("below the search's start", async () => {
    using project = new Project();
    put(project, ["a.txt", ...SKIPPED]);
    expect(await project.run({ op: "glob", pattern: "**/*" })).toBe("a.txt");
  });

  for (const path of SKIPPED) {
    test(`unless the path names one: ${path}`, async () => {
      using project = new Project();
      put(project, SKIPPED);
      const folder = path.slice(0, path.lastIndexOf("/"));
      expect(await project.run({ op: "glob", pattern: `${folder}/**/*` })).toBe(path);
      expect(await project.run({ op: "glob", pattern: "**/*", path: folder })).toBe(path);
    });
  }
});

test("a symlink is named and never followed", async () => {
  using project = new Project();
  symlinkSync(project.outside, project.path("out"));
  symlinkSync(".", project.path("circle"));
  expect((await project.run({ op: "glob", pattern: "**/*" })).split("\n").sort()).toEqual(["circle", "out"]);
});

describe("a search without a result has an answer for", () => {
  test("nothing matches", async () => {
    using project = new Project();
    expect(await project.run({ op: "glob", pattern: "*.zig" })).toBe("No file in . matches *.zig.");
  });
  test("a missing folder", async () => {
    using project = new Project();
    expect((await project.fails({ op: "glob", pattern: "*", path: "none" })).code).toBe("NOT_FOUND");
  });
  test("a file instead of a folder", async () => {
    using project = new Project();
    project.put("a.txt", "x");
    expect((await project.fails({ op: "glob", pattern: "*", path: "a.txt" })).code).toBe("INVALID");
  });
  for (const pattern of ["**/../x", "*/../../*", "/", "."]) {
    test(`the pattern ${pattern}`, async () => {
      using project = new Project();
      expect((await project.fails({ op: "glob", pattern })).code).toBeOneOf(["INVALID", "PERMISSION"]);
    });
  }
  for (const pattern of ["../*.ts", "../other/*", "sub/../../*"]) {
    test(`the pattern ${pattern}, which leads outside its path`, async () => {
      using project = new Project();
      project.put("src/sub/a.ts", "x");
      const error = await project.fails({ op: "glob", pattern, path: "src" });
      expect(error.code).toBe("INVALID");
      expect(error.message).toContain("leads out of src");
    });
  }
  test("a cancelled call", async () => {
    using project = new Project();
    mkdirSync(project.path("src"));
    expect(
      (
        await project.fails(
          { op: "glob", pattern: "**/*" },
          AbortSignal.abort(new SyscallError("CANCELLED", "The run was stopped.")),
        )
      ).code,
    ).toBe("CANCELLED");
  });
});
