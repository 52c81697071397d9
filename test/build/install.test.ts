import { describe, expect, test } from "bun:test";
import { existsSync, readdirSync, statSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { advice } from "../../install.ts";
import { binary } from "../e2e/support/binary.ts";
import { Folder } from "../support/folder.ts";

const ROOT = resolve(import.meta.dir, "../..");

describe("after the copy", () => {
  test.each([
    ["/bin/bash", `echo 'export PATH="$HOME/.local/bin:$PATH"' >> ~/.bashrc`],
    ["/usr/bin/zsh", `echo 'export PATH="$HOME/.local/bin:$PATH"' >> ~/.zshrc`],
    ["/usr/bin/fish", 'fish_add_path "$HOME/.local/bin"'],
    [undefined, 'export PATH="$HOME/.local/bin:$PATH"'],
  ])("the line for the PATH fits the shell %s", (shell, line) => {
    const env = { HOME: "/home/u", SHELL: shell, PATH: "/usr/bin:/bin" };
    expect(advice("/home/u/.local/bin", env)).toEqual([
      "/home/u/.local/bin is not on your PATH. Run this, then open a new terminal:",
      `  ${line}`,
    ]);
  });

  test("another rnix that comes first is named", () => {
    using folder = new Folder();
    const [mine, other] = [dirname(folder.put("mine/rnix", "")), dirname(folder.put("other/rnix", ""))];
    expect(advice(mine, { PATH: `${other}:${mine}` })[0]).toContain(`${other}/rnix comes first`);
    expect(advice(mine, { PATH: `${mine}:${other}` })).toEqual(["next: rnix demo, then rnix setup"]);
  });
});

test("npm run install:bin copies the built binary, which runs from there, and leaves nothing else", () => {
  binary();
  using folder = new Folder();
  const home = folder.dir;
  const bin = join(home, ".local/bin");
  const env = { ...process.env, HOME: home, PATH: `${bin}:${process.env.PATH}` };
  const install = () => Bun.spawnSync([process.execPath, join(ROOT, "install.ts")], { env, cwd: home });
  expect(install().stdout.toString()).toBe(`installed ${bin}/rnix\nnext: rnix demo, then rnix setup\n`);
  expect(statSync(join(bin, "rnix")).mode & 0o111).toBe(0o111);
  // Over an older one, too.
  expect(install().exitCode).toBe(0);
  expect(readdirSync(bin)).toEqual(["rnix"]);
  const run = Bun.spawnSync(["rnix", "version"], { env, cwd: home });
  expect(run.stdout.toString()).toStartWith("rnix ");
  expect(existsSync(join(home, ".config"))).toBe(false);
  const script = JSON.parse(Bun.spawnSync(["cat", join(ROOT, "package.json")]).stdout.toString()).scripts;
  expect(script["install:bin"]).toBe("npm run --silent build && bun install.ts");
});
