import { describe, expect, test } from "bun:test";
import { type ProviderRequest, resolveProvider } from "../../src/config/providers/provider-choice.ts";
import { describeProviders } from "../../src/config/providers/provider-list.ts";
import { loadProviders } from "../../src/config/providers/providers.ts";
import { trustAll } from "../../src/config/trust/trust.ts";
import { choose, KEYS, PROJECT, request, USER } from "./provider-request.ts";
import { failure, Sandbox } from "./sandbox.ts";

describe("a key", () => {
  test("is the spawner's, before the one in the user's file", async () => {
    using box = new Sandbox();
    const choice = await choose(box, "openai", KEYS, { userEnv: { OPENAI_API_KEY: "sk-file" } });
    expect(await choice.secret()).toBe("sk-openai");
  });

  test("is only in the secret of the choice, and distinguishes two gates", async () => {
    using box = new Sandbox();
    const one = await choose(box, "openai", KEYS);
    expect(JSON.stringify(one)).not.toContain("sk-openai");
    const same = await choose(box, "openai", { ...KEYS });
    const other = await choose(box, "openai", { OPENAI_API_KEY: "sk-other" });
    const elsewhere = await choose(box, "openai", { ...KEYS, OPENAI_BASE_URL: "http://127.0.0.1:1/v1" });
    expect(same.gateKey).toBe(one.gateKey);
    expect(new Set([one.gateKey, other.gateKey, elsewhere.gateKey]).size).toBe(3);
  });

  test("that is not needed is UNAVAILABLE when a driver still asks for it", async () => {
    using box = new Sandbox();
    const choice = await choose(box, "replay", {});
    expect((await failure(() => choice.secret())).code).toBe("UNAVAILABLE");
  });

  test("of a stock provider is not sent to the server of another entry that names no key", async () => {
    using box = new Sandbox();
    box.write(USER, "providers: { other: { driver: openai, base_url: 'https://other.example/v1' } }\n");
    const choice = await choose(box, "other", KEYS);
    expect((await failure(() => choice.secret())).code).toBe("UNAVAILABLE");
    // Where the server refuses the request, no variable that is not sent is named.
    expect(choice.config.key_source).toBe("api_key_env of other: its entry names no key");
  });

  test.each([
    ["openai", "OPENAI_BASE_URL"],
    ["openai-compatible", "OPENAI_BASE_URL"],
    ["anthropic", "ANTHROPIC_BASE_URL"],
    ["google", "GOOGLE_GEMINI_BASE_URL"],
  ])("of %s goes where %s says, unless a file says otherwise", async (name, variable) => {
    using box = new Sandbox();
    const env = { ...KEYS, [variable]: "http://127.0.0.1:1/v1" };
    expect((await choose(box, name, env)).config.base_url).toBe("http://127.0.0.1:1/v1");
    box.write(USER, `providers: { ${name}: { base_url: 'https://file.example/v1' } }\n`);
    expect((await choose(box, name, env)).config.base_url).toBe("https://file.example/v1");
  });
});

test("the second variable of a key counts where the first is not set, and the spawner's before the file's", async () => {
  using box = new Sandbox();
  const key = async (env: Record<string, string>, userEnv: Record<string, string> = {}) => {
    const flags = { provider: "google" };
    return (
      await resolveProvider(
        await request(box.sources(), { flags, env: { ...env, RNIX_MODEL: "m" }, userEnv }),
      )
    ).secret();
  };
  const second = { GOOGLE_GENERATIVE_AI_API_KEY: "second" };
  expect(await key(second)).toBe("second");
  expect(await key({ ...second, GEMINI_API_KEY: "first" })).toBe("first");
  expect(await key(second, { GEMINI_API_KEY: "from the file" })).toBe("second");
  expect((await failure(() => key({}))).message).toContain("GEMINI_API_KEY");
});

describe("a key that a command prints", () => {
  const COMMANDS: ProviderRequest["keys"] = {
    of: ({ command, cwd }) => ({
      id: `${command} in ${cwd}`,
      key: async () => `key of ${command}`,
      renew: async (refused) => refused === "old",
    }),
  };

  test("is fetched when it is asked for, with a gate of its own, and goes before the driver's usual variable", async () => {
    using box = new Sandbox();
    box.write(USER, "providers: { openai: { api_key_command: pass openai } }\n");
    const choice = await choose(box, "openai", KEYS, { keys: COMMANDS });
    expect(await choice.secret()).toBe("key of pass openai");
    expect(await choice.renewSecret?.("old")).toBe(true);
    box.write(USER, "providers: { openai: { api_key_command: pass other } }\n");
    expect((await choose(box, "openai", KEYS, { keys: COMMANDS })).gateKey).not.toBe(choice.gateKey);
  });

  test("comes after the variable beside it, where that is set", async () => {
    using box = new Sandbox();
    box.write(USER, "providers: { openai: { api_key_env: WORK_KEY, api_key_command: pass openai } }\n");
    const secret = async (env: Record<string, string>) =>
      (await choose(box, "openai", { ...KEYS, ...env }, { keys: COMMANDS })).secret();
    expect(await secret({})).toBe("key of pass openai");
    expect(await secret({ WORK_KEY: "sk-work" })).toBe("sk-work");
    expect((await choose(box, "openai", { WORK_KEY: "sk-work" })).renewSecret).toBeUndefined();
  });

  test("makes its provider one that is found, and is not run to list it", async () => {
    using box = new Sandbox();
    const file = box.write(USER, "providers: { openai: { api_key_command: pass openai } }\n");
    const look = await request(box.sources(), { keys: COMMANDS });
    expect(await resolveProvider(look)).toMatchObject({
      name: "openai",
      model: "gpt-default",
      because: `api_key_command of ${file}`,
    });
    const line = (await describeProviders(await request(box.sources()))).find(
      ({ name }) => name === "openai",
    );
    expect(line).toMatchObject({ key: "command", problem: null });
  });

  test("is run in the project's folder for a project that is trusted with it, and in no other", async () => {
    using box = new Sandbox();
    const file = box.write(PROJECT, "providers: { openai: { api_key_command: ./steal } }\n");
    expect((await loadProviders(box.sources())).withheld).toEqual([
      `provider openai: api_key_command "./steal" in ${file}`,
    ]);
    expect(await (await choose(box, "openai", KEYS)).secret()).toBe("sk-openai");
    const trusted = await loadProviders({ ...box.sources(), trust: trustAll });
    expect(trusted.byName.get("openai")?.keyCommand).toEqual({
      command: "./steal",
      file,
      cwd: box.projectDir,
    });
  });
});
