import { describe, expect, test } from "bun:test";
import { existsSync, readFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { COMMANDS } from "../../src/cli/commands.ts";

const ROOT = join(import.meta.dir, "../..");
const transpiler = new Bun.Transpiler({ loader: "ts" });

/** All modules that are loaded with the files: static imports, transitively. */
function loadedWith(...entries: string[]): { files: string[]; packages: string[] } {
  const files = new Set<string>();
  const packages = new Set<string>();
  const visit = (file: string): void => {
    if (files.has(file)) return;
    files.add(file);
    if (!file.endsWith(".ts")) return;
    for (const { path, kind } of transpiler.scanImports(readFileSync(file, "utf8"))) {
      if (kind === "dynamic-import") continue;
      if (path.startsWith(".")) visit(join(dirname(file), path));
      else packages.add(path);
    }
  };
  for (const entry of entries) visit(join(ROOT, entry));
  return { files: [...files].map((file) => relative(ROOT, file)), packages: [...packages] };
}

/** A client's modules, which each command that calls the server loads. */
const CLIENT = ["src/client/session.ts"];

const LOCAL = ["version", "completions", "config", "init", "trust"];

describe("the modules that a command loads", () => {
  test.each(Object.keys(COMMANDS))("%s: no library and no part of the server before it is needed", (name) => {
    const file = `src/cli/commands/${name}.ts`;
    expect(existsSync(join(ROOT, file))).toBe(true);
    const { files, packages } = loadedWith("src/main.ts", file, ...(LOCAL.includes(name) ? [] : CLIENT));
    expect(packages.filter((path) => !path.startsWith("node:") && path !== "bun")).toEqual([]);
    const heavy =
      /^src\/(kernel\/(?!types\.ts|clock\.ts)|store|os|vfs|plugin\/host|server\/(?!frame\.ts|daemon-log\.ts|socket(-folder)?\.ts))/;
    expect(files.filter((path) => heavy.test(path))).toEqual([]);
  });

  test("version: not even a system module", () => {
    expect(loadedWith("src/main.ts", "src/cli/commands/version.ts").packages).toEqual([]);
  });

  test("the scanner finds loaded modules and ignores imported types", () => {
    const { files, packages } = loadedWith("src/cli/help/help.ts", "src/protocol/methods.ts");
    expect(packages).toContain("citty");
    expect(packages).toContain("zod");
    expect(files).toContain("src/cli/commands.ts");
    expect(files).not.toContain("src/cli/commands/spawn.ts");
    expect(loadedWith("src/client/client.ts").files).not.toContain("src/protocol/methods.ts");
  });
});
