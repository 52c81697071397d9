import { describe, expect, test } from "bun:test";
import { type ProviderRequest, resolveProvider } from "../../src/config/providers/provider-choice.ts";
import type { DriverFacts } from "../../src/plugin/index.ts";
import { FakeClock } from "../support/fake-clock.ts";
import { until } from "../support/until.ts";
import { byKey, device, request, STOCK, USER } from "./provider-request.ts";
import { failure, Sandbox } from "./sandbox.ts";

describe("a driver that is asked what it finds", () => {
  test("a failure is a warning, and the other providers are still asked", async () => {
    using box = new Sandbox();
    const broken = device("aaa", () => Promise.reject(new TypeError("oops")));
    const warnings: string[] = [];
    const more = {
      devices: { entries: () => [broken, ...STOCK, byKey("zzz", "ZZZ", "z")] },
      env: { ZZZ: "1" },
      warn: (text: string) => void warnings.push(text),
    };
    expect((await resolveProvider(await request(box.sources(), more))).name).toBe("zzz");
    expect(warnings.join()).toContain("oops");
  });

  test("and never answers is given up at its deadline", async () => {
    using box = new Sandbox();
    const warnings: string[] = [];
    const clock = new FakeClock();
    const deaf = device("deaf", () => new Promise(() => undefined));
    const choice = resolveProvider(
      await request(box.sources(), {
        devices: { entries: () => [deaf, ...STOCK, byKey("zzz", "ZZZ", "z")] },
        env: { ZZZ: "1" },
        warn: (text) => void warnings.push(text),
        clock,
      }),
    );
    await clock.advance(2000);
    expect((await choice).name).toBe("zzz");
    expect(warnings).toHaveLength(1);
    expect(warnings[0]).toContain("deaf");
    expect(clock.pending).toBe(0);
  });
});

describe("a driver of a plugin that declares facts", () => {
  const offers = async () => ({ model: "m1" });
  const chosen = async (facts: DriverFacts, more: Partial<ProviderRequest>) => {
    using box = new Sandbox();
    const devices = { entries: () => [device("mine", offers, facts), ...STOCK] };
    return resolveProvider(await request(box.sources(), { devices, ...more }));
  };

  test("is found by its key, after the stock drivers and before programs", async () => {
    const facts = { keyEnvs: ["MINE", "MINE_OLD"], needsKey: true };
    const found = await chosen(facts, { env: { MINE_OLD: "key-of-mine" } });
    expect(found).toMatchObject({ name: "mine", model: "m1", because: "found MINE_OLD" });
    expect(await found.secret()).toBe("key-of-mine");
    expect((await chosen(facts, { env: { MINE: "k", OPENAI_API_KEY: "sk" } })).name).toBe("openai");
    expect((await failure(() => chosen(facts, {}))).code).toBe("UNAVAILABLE");
  });

  test("has its address and its limit, which an entry changes", async () => {
    const facts = { baseUrlEnv: "MINE_URL", baseUrl: "https://mine.example/v1", concurrency: 2 };
    expect(await chosen(facts, {})).toMatchObject({
      concurrency: 2,
      config: { base_url: "https://mine.example/v1" },
    });
    const env = { MINE_URL: "http://127.0.0.1:9/v1" };
    expect((await chosen(facts, { env })).config.base_url).toBe("http://127.0.0.1:9/v1");
    using box = new Sandbox();
    box.write(USER, "providers: { mine: { concurrency: 5, base_url: 'https://other.example' } }\n");
    const devices = { entries: () => [device("mine", offers, facts), ...STOCK] };
    const entry = await resolveProvider(
      await request(box.sources(), { devices, flags: { provider: "mine" } }),
    );
    expect(entry).toMatchObject({ concurrency: 5, config: { base_url: "https://other.example" } });
  });

  test("that needs an address is refused without one, and its variable is named", async () => {
    const facts = { baseUrlEnv: "MINE_URL", needsBaseUrl: true };
    const error = await failure(() => chosen(facts, { flags: { provider: "mine" } }));
    expect(error.code).toBe("UNAVAILABLE");
    expect(error.message).toContain("set MINE_URL");
  });

  test("that plays a recording is a replay for its children, too", async () => {
    expect((await chosen({ plays: true }, { flags: { provider: "mine" } })).plays).toBe(true);
    expect((await chosen({}, { flags: { provider: "mine" } })).plays).toBeUndefined();
  });

  test("has the facts of its models", async () => {
    const price = { input: 3, cached: 1, output: 4 };
    const models = { m1: { contextWindow: 64_000, maxOutput: 8000, price } };
    expect(await chosen({ models }, {})).toMatchObject({ contextWindow: 64_000, outputLimit: 8000, price });
  });
});

describe("a model server on this machine", () => {
  const ollama = (tags: unknown, served: string[] = []) =>
    Bun.serve({
      port: 0,
      hostname: "127.0.0.1",
      fetch(asked) {
        served.push(new URL(asked.url).pathname);
        return Response.json(tags);
      },
    });
  const TAGS = {
    models: [
      { name: "nomic-embed-text:latest", details: { family: "nomic-bert" } },
      { name: "qwen3:8b", details: { family: "qwen3" } },
    ],
  };
  const at = (server: { port?: number }) => ({ OLLAMA_HOST: `127.0.0.1:${server.port}` });

  test("is taken when there is nothing else, with a model that can talk", async () => {
    using box = new Sandbox();
    await using server = ollama(TAGS);
    expect(await resolveProvider(await request(box.sources(), { env: at(server) }))).toMatchObject({
      name: "ollama",
      model: "qwen3:8b",
      because: "found a server of ollama on this machine",
      config: { base_url: `http://127.0.0.1:${server.port}/v1` },
    });
  });

  test("gives the model of an ollama that is named without one", async () => {
    using box = new Sandbox();
    await using server = ollama(TAGS);
    const flags = { provider: "ollama" };
    expect((await resolveProvider(await request(box.sources(), { env: at(server), flags }))).model).toBe(
      "qwen3:8b",
    );
  });

  test("is not asked as long as there is a key", async () => {
    using box = new Sandbox();
    const served: string[] = [];
    await using server = ollama(TAGS, served);
    const env = { ...at(server), OPENAI_API_KEY: "sk-openai" };
    expect((await resolveProvider(await request(box.sources(), { env }))).name).toBe("openai");
    expect(served).toEqual([]);
  });

  test.each([
    ["has no models", { models: [] }],
    ["is something else", { hello: "world" }],
  ])("that %s is not found", async (_, tags) => {
    using box = new Sandbox();
    await using server = ollama(tags);
    const error = await failure(async () =>
      resolveProvider(await request(box.sources(), { env: at(server) })),
    );
    expect(error.code).toBe("UNAVAILABLE");
  });

  test("that does not answer is given up after half a second", async () => {
    using box = new Sandbox();
    await using server = Bun.serve({
      port: 0,
      hostname: "127.0.0.1",
      fetch: () => new Promise<Response>(() => undefined),
    });
    const clock = new FakeClock();
    const asked = failure(async () =>
      resolveProvider(await request(box.sources(), { env: at(server), clock })),
    );
    await until(() => clock.waits.includes(500));
    await clock.advance(500);
    expect((await asked).code).toBe("UNAVAILABLE");
  });

  test("comes after a preset and an entry that have their key and a model", async () => {
    using box = new Sandbox();
    await using server = ollama(TAGS);
    const chosen = async (env: Record<string, string>) =>
      resolveProvider(await request(box.sources(), { env: { ...at(server), ...env } }));
    expect(await chosen({ OPENROUTER_API_KEY: "sk-or" })).toMatchObject({
      name: "openrouter",
      because: "found OPENROUTER_API_KEY",
    });
    box.write(USER, "providers: { work: { driver: openai, api_key_env: WORK_KEY, default_model: w } }\n");
    expect(await chosen({ WORK_KEY: "sk-work" })).toMatchObject({ name: "work", model: "w" });
  });
});
