import { describe, expect, test } from "bun:test";
import { existsSync, readFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { COMMANDS } from "../../src/cli/commands.ts";

const ROOT = join(import.meta.dir, "../..");
const transpiler = new Bun.Transpiler({ loader: "ts" });

/** Everything that is loaded with these files: their imports and those of what they import, but for dynamic ones. */
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

/** A client speaks over these; each command that asks the server loads them. */
const CLIENT = ["src/client/session.ts"];

const LOCAL = ["version", "completions", "config", "init", "trust"];

describe("what a command loads", () => {
  test.each(Object.keys(COMMANDS))(
    "%s: no library and no part of the server before it asks for it",
    (name) => {
      const file = `src/cli/commands/${name}.ts`;
      expect(existsSync(join(ROOT, file))).toBe(true);
      const { files, packages } = loadedWith("src/main.ts", file, ...(LOCAL.includes(name) ? [] : CLIENT));
      expect(packages.filter((path) => !path.startsWith("node:") && path !== "bun")).toEqual([]);
      const heavy =
        /^src\/(kernel\/(?!types\.ts|clock\.ts)|store|os|vfs|plugin\/host|server\/(?!frame\.ts|daemon-log\.ts|socket(-folder)?\.ts))/;
      expect(files.filter((path) => heavy.test(path))).toEqual([]);
    },
  );

  test("version: not even a module of the system", () => {
    expect(loadedWith("src/main.ts", "src/cli/commands/version.ts").packages).toEqual([]);
  });

  test("the scanner sees what is loaded and not what is only a type", () => {
    const { files, packages } = loadedWith("src/cli/help.ts", "src/protocol/methods.ts");
    expect(packages).toContain("citty");
    expect(packages).toContain("zod");
    expect(files).toContain("src/cli/commands.ts");
    expect(files).not.toContain("src/cli/commands/spawn.ts");
    expect(loadedWith("src/client/client.ts").files).not.toContain("src/protocol/methods.ts");
  });
});
