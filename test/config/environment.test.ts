import { describe, expect, test } from "bun:test";
import { chmodSync } from "node:fs";
import { providerKeys, toolEnvironment, userEnv } from "../../src/config/environment/environment.ts";
import { failure, Sandbox } from "./sandbox.ts";

describe("a tool's environment", () => {
  test("has neither providers' keys, nor copies of them, nor BUN_*", () => {
    const env = {
      PATH: "/bin",
      OPENAI_API_KEY: "sk-0123456789abcdef",
      MY_COPY: "sk-0123456789abcdef",
      ANTHROPIC_API_KEY: "short",
      SHORT: "short",
      ANTHROPIC_AUTH_TOKEN: "t",
      GEMINI_API_KEY: "g",
      WORK_KEY: "w",
      BUN_OPTIONS: "--preload x",
      JIRA_API_KEY: "the tool's own",
      UNSET: undefined,
    };
    expect(toolEnvironment(env, ["WORK_KEY"])).toEqual({
      PATH: "/bin",
      SHORT: "short",
      JIRA_API_KEY: "the tool's own",
    });
  });
});

describe("a variable that holds a key", () => {
  const key = "sk-01234";
  const env = { PATH: "/bin", HOME: "/home/u", OPENAI_API_KEY: key };

  test("is in no tool's environment, anywhere in a value, for any provider", () => {
    const held = {
      DATABASE_URL: `postgres://u:${key}@host/db`,
      AUTH_HEADER: `Bearer ${key}`,
      ALL: JSON.stringify({ a: [key] }),
      OTHERS: "Bearer from-the-user's-file",
      COMMANDS: "x-fetched-by-a-command-x",
    };
    const more = ["from-the-user's-file", "fetched-by-a-command"];
    const plain = { PART: key.slice(0, -1), URL: "postgres://u:p@host/db" };
    expect(toolEnvironment({ ...env, ...held, ...plain }, [], more)).toEqual({
      PATH: "/bin",
      HOME: "/home/u",
      ...plain,
    });
  });

  test("is left in when the key is a word: short, or a part of a folder's name", () => {
    const words = { OPENAI_API_KEY: "lm-studio", OLLAMA_API_KEY: "ollama" };
    const tools = { PATH: "/home/u/.cache/lm-studio/bin", MODELS: "/models/lm-studio/ollama" };
    expect(toolEnvironment({ ...words, ...tools })).toEqual(tools);
    expect(providerKeys([{ ...words, ...tools }])).toEqual([]);
  });

  test("is found in all environments, by the names of providers.yaml too", () => {
    const own = { WORK_TOKEN: "work-token-1", GITHUB_TOKEN: "no-provider's" };
    expect(providerKeys([env, own, { GEMINI_API_KEY: "gemini-key" }], ["WORK_TOKEN"]).sort()).toEqual([
      "gemini-key",
      key,
      "work-token-1",
    ]);
  });
});

describe("the user's env file", () => {
  test("has KEY=VALUE lines, and counts again when it changes", () => {
    using box = new Sandbox();
    const text = "# comment\n\nA=1\n export B = no\nC=x=y # z\nD='q'\nE=\"\"\n".replace(
      " export B = no\n",
      "export B=2\n",
    );
    box.write("home/.config/rnix/env", text, 0o600);
    expect(userEnv(box.configDir)).toEqual({ A: "1", B: "2", C: "x=y # z", D: "q", E: "" });
    box.write("home/.config/rnix/env", "A=2\n", 0o600);
    expect(userEnv(box.configDir)).toEqual({ A: "2" });
  });

  test("is refused when others can read it", async () => {
    using box = new Sandbox();
    const file = box.write("home/.config/rnix/env", "A=1\n", 0o600);
    chmodSync(file, 0o644);
    expect((await failure(() => userEnv(box.configDir))).message).toContain(`chmod 600 ${file}`);
  });

  test("is refused with the line, never the words, of what is no KEY=VALUE", async () => {
    using box = new Sandbox();
    const file = box.write("home/.config/rnix/env", "A=1\nsk-secret\n", 0o600);
    const error = await failure(() => userEnv(box.configDir));
    expect(error.message).toStartWith(`${file}:2:1: `);
    expect(error.message).not.toContain("sk-secret");
  });

  test("that is not there says nothing", () => {
    using box = new Sandbox();
    expect(userEnv(box.configDir)).toEqual({});
  });
});
