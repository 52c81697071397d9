import { describe, expect, test } from "bun:test";
import {
  chmodSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { userEnv } from "../../src/config/environment/environment.ts";
import { saveProvider, withProvider, withVariable } from "../../src/config/providers/save-provider.ts";

describe("a variable in the file of keys", () => {
  test.each([
    ["", "K=v\n"],
    ["# keys\nA=1\n", "# keys\nA=1\nK=v\n"],
    ["A=1", "A=1\nK=v\n"],
    ["K=old\nA=1\n", "K=v\nA=1\n"],
    ["export K=old # mine\n\nKK=2\n", "K=v\n\nKK=2\n"],
    ["K=1\nA=2\nK=3\n", "K=v\nA=2\n"],
  ])("%j becomes %j", (before, after) => {
    expect(withVariable(before, { variable: "K", value: "v" })).toBe(after);
  });

  test("is read back as it was written", () => {
    for (const value of ["v", '"quoted"', "a=b#c", "with space "]) {
      const dir = mkdtempSync(join(tmpdir(), "rnix-save-"));
      writeFileSync(join(dir, "env"), withVariable("", { variable: "K", value }), { mode: 0o600 });
      expect(userEnv(dir)).toEqual({ K: value });
      rmSync(dir, { recursive: true });
    }
    expect(() => withVariable("", { variable: "K", value: "a\nb" })).toThrow("no line break");
  });
});

describe("a provider in providers.yaml", () => {
  const add = { name: "work", model: "m: 1", entry: { base_url: "http://x/v1", api_key_env: null } };

  test("is added; comments, order and other entries stay", async () => {
    const before = `# Mine.
default_provider: old # for now
providers:
  # The old one.
  old:
    driver: openai
    models:
      a: { context_window: 1000, price: { input: 0.4, output: 1 } } # cheap

  work: { api_key_env: KEY, fallback: [b] }
`;
    expect(await withProvider("/f", before, add)).toBe(
      before
        .replace("default_provider: old", "default_provider: work")
        .replace(
          "{ api_key_env: KEY, fallback: [b] }",
          '{ fallback: [ b ], base_url: http://x/v1, default_model: "m: 1" }',
        ),
    );
  });

  test("is the first in an empty file", async () => {
    expect(await withProvider("/f", "", add)).toBe(
      'default_provider: work\nproviders:\n  work:\n    base_url: http://x/v1\n    default_model: "m: 1"\n',
    );
  });

  test("a file with a mistake is left alone, and the mistake is named", async () => {
    await expect(withProvider("/f/providers.yaml", "providers: [\n", add)).rejects.toThrow(
      "/f/providers.yaml:",
    );
    await expect(withProvider("/f/providers.yaml", "provider: x\n", add)).rejects.toThrow("unknown key");
  });
});

test("the files are written with mode 0600, through links, and both or neither", async () => {
  const dir = mkdtempSync(join(tmpdir(), "rnix-save-"));
  try {
    const dotfiles = join(dir, "dotfiles");
    const config = join(dir, "config");
    mkdirSync(dotfiles);
    mkdirSync(config);
    writeFileSync(join(dotfiles, "env"), "# keys\n");
    chmodSync(join(dotfiles, "env"), 0o600);
    symlinkSync(join(dotfiles, "env"), join(config, "env"));
    const saved = { name: "openai", model: "m", entry: {}, key: { variable: "K", value: "v" } };
    expect(await saveProvider(config, saved)).toEqual([
      join(dotfiles, "env"),
      join(config, "providers.yaml"),
    ]);
    expect(readFileSync(join(dotfiles, "env"), "utf8")).toBe("# keys\nK=v\n");
    expect(statSync(join(dotfiles, "env")).mode & 0o777).toBe(0o600);

    writeFileSync(join(config, "providers.yaml"), "providers: 3\n");
    const again = { ...saved, key: { variable: "K", value: "other" } };
    await expect(saveProvider(config, again)).rejects.toThrow("providers.yaml:1:");
    expect(readFileSync(join(dotfiles, "env"), "utf8")).toBe("# keys\nK=v\n");
  } finally {
    rmSync(dir, { recursive: true });
  }
});
