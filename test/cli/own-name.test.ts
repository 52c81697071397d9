import { afterAll, describe, expect, test } from "bun:test";
import { mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { ownName, shellWord } from "../../src/cli/system/own-name.ts";

describe("the name of this binary, as the user types it", () => {
  const root = realpathSync(mkdtempSync(join(tmpdir(), "rnix-own-name-")));
  const binary = join(root, "dist", "rnix");
  const bin = join(root, "bin");
  mkdirSync(join(root, "dist"));
  mkdirSync(bin);
  writeFileSync(binary, "", { mode: 0o755 });
  symlinkSync(binary, join(bin, "rnix"));
  afterAll(() => rmSync(root, { recursive: true, force: true }));

  test.each([
    ["on the PATH", { cwd: "/", PATH: bin }, "rnix"],
    ["in the current folder", { cwd: join(root, "dist"), PATH: "/usr/bin" }, "./rnix"],
    ["below it", { cwd: root, PATH: "/usr/bin" }, "./dist/rnix"],
    ["elsewhere", { cwd: bin, PATH: "/usr/bin" }, binary],
  ])("%s", (_, { cwd, PATH }, name) => {
    expect(ownName({ cwd, env: { PATH } }, binary)).toBe(name);
  });

  test("another rnix on the PATH is not it", () => {
    const other = join(root, "other");
    mkdirSync(other);
    writeFileSync(join(other, "rnix"), "", { mode: 0o755 });
    expect(ownName({ cwd: "/usr", env: { PATH: other } }, binary)).toBe(binary);
  });

  test("is quoted where a shell needs that", () => {
    expect(shellWord("/a b/it's")).toBe(`"/a b/it's"`);
    expect(ownName({ cwd: "/x", env: { PATH: "" } }, "/my tools/rnix")).toBe('"/my tools/rnix"');
  });
});
