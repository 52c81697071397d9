import { expect, test } from "bun:test";
import { Machine, OPENAI_KEY } from "./support/machine.ts";

test("rnix models lists what the services offer, with windows, prices and the default", async () => {
  await using machine = new Machine();
  const model = await machine.model({ turns: [], models: ["m", "gpt-5", "own"] });
  machine.write(
    `${machine.configDir}/providers.yaml`,
    "providers:\n  openai:\n    models:\n      own: { context_window: 64000, price: { input: 1, output: 2 } }\n",
  );
  const own = { ANTHROPIC_API_KEY: undefined, GEMINI_API_KEY: undefined };
  const { code, stdout, stderr } = await machine.run(["models", "--provider", "openai"], { env: own });
  expect(code).toBe(0);
  expect(stdout).toMatch(/^MODEL +PROVIDER +WINDOW +INPUT +CACHED +OUTPUT\n/);
  // The address is not OpenAI's: what OpenAI charges does not count there.
  expect(stdout).toMatch(/\ngpt-5 +openai +- +- +- +-\n/);
  expect(stdout).toMatch(/\nm \* +openai +- +- +- +-\n/);
  expect(stdout).toMatch(/\nown +openai +64k +\$1 +\$1 +\$2\n/);
  expect(stderr).toBe("* the default here: m of openai (RNIX_PROVIDER). USD per million tokens.\n");
  // Names only: no request was made that costs.
  expect(model.requests).toEqual([]);

  const json = await machine.run(["models", "--provider", "openai", "--json"], { env: own });
  expect(JSON.parse(json.stdout)).toMatchObject({
    default: { provider: "openai", model: "m", because: "RNIX_PROVIDER" },
    models: expect.arrayContaining([
      expect.objectContaining({ model: "own", context_window: 64_000, from: "service", chosen: false }),
    ]),
  });
});

test("without a provider, a key or an answer the table of known models is there", async () => {
  await using machine = new Machine();
  const none = await machine.run(["models"]);
  expect(none.code).toBe(0);
  expect(none.stdout).toMatch(/\nclaude-sonnet-5-5 +anthropic +1M +\$2 +\$0\.1 +\$10\n/);
  expect(none.stderr).toContain("There is no default model here");

  const refused = await machine.model({ turns: [], key: "another" });
  const out = await machine.run(["models", "--provider", "openai"]);
  expect(out.stderr).toContain("openai: the model server answered 401");
  expect(out.stderr).not.toContain(OPENAI_KEY);
  expect(refused.requests).toEqual([]);
  // The variable that the provider's entry names, and no other.
  machine.write(
    `${machine.configDir}/providers.yaml`,
    `providers:\n  work: { driver: openai-compatible, base_url: "${refused.openaiUrl}", api_key_env: WORK_KEY }\n`,
  );
  const named = await machine.run(["spawn", "hi", "--provider", "work", "--model", "m"], {
    env: { WORK_KEY: "expired" },
  });
  expect(named.stderr).toContain("answered 401");
  expect(named.stderr).toContain("Check WORK_KEY");
  expect(named.stderr).not.toContain("OPENAI_API_KEY");

  expect(await machine.run(["models", "--provider", "opnai"])).toMatchObject({
    code: 64,
    stderr: expect.stringContaining("openai"),
  });
});

test("a server of one's own gives the default model from its list: for a spawn, rnix models and rnix providers", async () => {
  await using machine = new Machine();
  const model = await machine.model({
    turns: Array.from({ length: 4 }, () => ({ text: "hello" })),
    models: ["nomic-embed-text", "mine", "other"],
  });
  const named = { RNIX_PROVIDER: undefined, RNIX_MODEL: undefined };
  const other = { ANTHROPIC_API_KEY: undefined, GEMINI_API_KEY: undefined };
  machine.write(
    `${machine.configDir}/providers.yaml`,
    `providers:\n  work: { driver: openai-compatible, base_url: "${model.openaiUrl}", api_key_env: WORK_KEY }\n`,
  );
  const without = { OPENAI_BASE_URL: undefined, OPENAI_API_KEY: undefined };
  for (const [args, env, provider] of [
    [[], {}, "openai"],
    [[], { OPENAI_API_KEY: undefined }, "openai-compatible"],
    [["--provider", "work"], { ...without, WORK_KEY: "k" }, "work"],
    [[], { ...without, WORK_KEY: "k" }, "work"],
  ] as const) {
    const all = { env: { ...named, ...other, ...env } };
    const spawned = await machine.run(["spawn", "hi", "--output", "json", ...args], all);
    expect(JSON.parse(spawned.stdout)).toMatchObject({ provider, model: "mine", result: "hello" });
    if (args.length > 0) continue;
    const listed = await machine.run(["models", "--json"], all);
    expect(JSON.parse(listed.stdout)).toMatchObject({ default: { provider, model: "mine" } });
    const providers = await machine.run(["providers", "--json"], all);
    expect(JSON.parse(providers.stdout)).toContainEqual(
      expect.objectContaining({ name: provider, model: "mine", chosen: true }),
    );
  }
});
