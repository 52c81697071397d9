import { describe, expect, test } from "bun:test";
import {
  MODEL_SERVICES,
  type ModelAddress,
  type ModelFacts,
  modelFacts,
} from "../../src/config/providers/model-facts.ts";
import { resolveProvider } from "../../src/config/providers/provider-choice.ts";
import { trustAll } from "../../src/config/trust/trust.ts";
import type { TokenPrice } from "../../src/plugin/index.ts";
import { deviceOf, HTTP_DRIVERS } from "../support/model-server/conformance/driver.ts";
import { STOCK_FACTS } from "../support/stock-drivers.ts";
import { KEYS, PROJECT, request, USER } from "./provider-request.ts";
import { Sandbox } from "./sandbox.ts";

const NOVEMBER = Date.parse("2026-11-22T12:00:00Z");

/** As the driver of this name is called where no address is set. */
function at(driver: string, model: string): ModelAddress {
  return { driver: STOCK_FACTS.get(driver), model };
}

const SONNET = at("anthropic", "claude-sonnet-5-5");
const ASTRA = at("openai", "gpt-6-astra");

function known(address: ModelAddress, file?: ModelFacts, now = NOVEMBER): ModelFacts {
  return modelFacts(file, address, now);
}

describe("a model at its service's own address", () => {
  test.each([
    ["the driver's default address", SONNET, 2],
    ["the same address, written out", { ...SONNET, url: "https://api.anthropic.com" }, 2],
    ["another path of it", { ...ASTRA, url: "https://api.openai.com/v1/" }, 10],
    [
      "another driver that calls it",
      { ...at("openai-compatible", "gpt-6-astra"), url: "https://api.openai.com/v1" },
      10,
    ],
    ["Google", at("google", "gemini-3.8-flash"), 0.75],
    ["a dated version, Anthropic's way", { ...SONNET, model: "claude-haiku-4-5-20251001" }, 1],
    ["a dated version, OpenAI's way", { ...ASTRA, model: "gpt-6-astra-2026-09-03" }, 10],
    ["an alias of the Claude Code CLI", at("claude", "sonnet"), 2],
    ["its name for a long window", at("claude", "opus[1m]"), 4],
    ["a whole name for the CLI", at("claude", "claude-sonnet-4-5-20250929"), 3],
  ])("has a price: %s", (_, address, input) => {
    expect(known(address).price?.input).toBe(input);
  });

  test("has a context window and an output limit", () => {
    expect(known(SONNET)).toMatchObject({ contextWindow: 1_000_000, outputLimit: 128_000 });
    expect(known(SONNET).maxOutput).toBeUndefined();
  });

  test("of which no source states the price has the other facts only", () => {
    expect(known({ ...ASTRA, model: "gpt-6.2-astra" })).toMatchObject({
      contextWindow: 1_050_000,
      price: undefined,
    });
  });

  test("has the announced price from its first day on", () => {
    const argon = at("google", "gemini-4-argon");
    const inputAt = (time: string) => known(argon, undefined, Date.parse(time)).price?.input;
    expect(inputAt("2026-11-30T23:59:59Z")).toBe(2);
    expect(inputAt("2026-12-01T00:00:00Z")).toBe(4);
  });

  test("the window of a program is its own", () => {
    expect(known(at("claude", "sonnet"))).toMatchObject({
      contextWindow: undefined,
      outputLimit: undefined,
    });
  });
});

describe("nothing is known of", () => {
  const NOTHING = {
    contextWindow: undefined,
    maxOutput: undefined,
    outputLimit: undefined,
    price: undefined,
  };
  test.each([
    ["the name at another address", { ...SONNET, url: "https://llm.example.com" }],
    ["the name at a local address", { ...ASTRA, url: "http://127.0.0.1:8080/v1" }],
    [
      "the name at an address that begins alike",
      { ...SONNET, url: "https://api.anthropic.com.evil.example" },
    ],
    ["the name without encryption", { ...SONNET, url: "http://api.anthropic.com" }],
    ["the name in another region", { ...ASTRA, url: "https://eu.api.openai.com/v1" }],
    [
      "OpenRouter's model of the name",
      { ...at("openai-compatible", "claude-sonnet-5-5"), url: "https://openrouter.ai/api/v1" },
    ],
    [
      "Ollama's model of the name",
      { ...at("openai-compatible", "gpt-6-astra"), url: "http://127.0.0.1:11434/v1" },
    ],
    ["a driver of a plugin", at("acme", "claude-sonnet-5-5")],
    ["another service's model", at("openai", "claude-sonnet-5-5")],
    ["a newer model", { ...SONNET, model: "claude-sonnet-6" }],
    ["a name that only begins alike", { ...ASTRA, model: "gpt-6-astra-fast" }],
    ["a date written as another service writes it", { ...ASTRA, model: "gpt-6-astra-20260903" }],
    ["the CLI's alias in the API", { ...SONNET, model: "sonnet" }],
    ["an object's own names", { ...SONNET, model: "constructor" }],
    ["an address that can't be read", { ...SONNET, url: "nonsense" }],
  ])("%s", (_, address) => {
    expect(known(address)).toEqual(NOTHING);
  });
});

test("a driver's own facts of its models count at its default address", () => {
  const price = { input: 3, cached: 1, output: 4 };
  const driver = {
    baseUrl: "https://api.acme.example/v1",
    models: { "acme-1": { contextWindow: 64_000, price } },
  };
  const facts = { contextWindow: 64_000, maxOutput: undefined, outputLimit: undefined, price };
  expect(known({ driver, model: "acme-1" })).toEqual(facts);
  expect(known({ driver, model: "acme-1", url: driver.baseUrl })).toEqual(facts);
  expect(known({ driver, model: "acme-1" }, { price: { ...price, input: 9 } }).price?.input).toBe(9);
  expect(known({ driver, model: "acme-1", url: "https://proxy.example" }).price).toBeUndefined();
  expect(known({ driver, model: "acme-2" }).price).toBeUndefined();
});

test.each(["serviceTier", "service_tier", "speed", "inferenceGeo"])("extra.%s has another price", (name) => {
  expect(known({ ...SONNET, extra: { [name]: "x" } })).toMatchObject({
    price: undefined,
    contextWindow: 1_000_000,
  });
  expect(known({ ...SONNET, extra: { temperature: 0 } }).price?.input).toBe(2);
});

describe("providers.yaml", () => {
  const models = (text: string) => `providers: { anthropic: { models: { claude-sonnet-5-5: ${text} } } }\n`;
  const chosen = async (box: Sandbox, env: Record<string, string> = KEYS) =>
    resolveProvider(
      await request(
        { ...box.sources(), trust: trustAll },
        { env, flags: { provider: "anthropic", model: "claude-sonnet-5-5" } },
      ),
    );

  test("is not needed", async () => {
    using box = new Sandbox();
    expect(await chosen(box)).toMatchObject({
      contextWindow: 1_000_000,
      outputLimit: 128_000,
      price: { input: 2, output: 10, cached: 0.1, cacheWrite: 2.5 },
    });
  });

  test("of the user counts before the table, fact by fact, and its price whole", async () => {
    using box = new Sandbox();
    box.write(USER, models("{ max_output: 9000 }"));
    expect(await chosen(box)).toMatchObject({
      contextWindow: 1_000_000,
      maxOutput: 9000,
      price: { input: 2 },
    });
    box.write(
      USER,
      models(
        "{ context_window: 200000, price: { input: 7, output: 8, long: { above: 1000, input: 9, output: 10, cache_write: 11 } } }",
      ),
    );
    const { contextWindow, price } = await chosen(box);
    expect(contextWindow).toBe(200_000);
    expect(price).toEqual({
      input: 7,
      output: 8,
      cached: 7,
      long: { above: 1000, input: 9, output: 10, cached: 9, cacheWrite: 11 },
    });
  });

  test("is only one source of a window: config.yaml's comes before the table", async () => {
    using box = new Sandbox();
    const choose = async (model: string) =>
      resolveProvider(
        await request(box.sources(), {
          env: KEYS,
          flags: { provider: "anthropic", model },
          contextWindow: 50_000,
        }),
      );
    expect((await choose("claude-sonnet-5-5")).contextWindow).toBe(50_000);
    box.write(USER, models("{ context_window: 60000 }"));
    expect((await choose("claude-sonnet-5-5")).contextWindow).toBe(60_000);
  });

  test("of a trusted project counts before the table, too", async () => {
    using box = new Sandbox();
    box.write(PROJECT, models("{ price: { input: 1, output: 2 } }"));
    expect((await chosen(box)).price).toEqual({ input: 1, output: 2, cached: 1 });
  });

  test("with another address has no price of the table; a price for it counts", async () => {
    using box = new Sandbox();
    const proxy = { ...KEYS, ANTHROPIC_BASE_URL: "https://proxy.example" };
    expect((await chosen(box, proxy)).price).toBeUndefined();
    box.write(USER, models("{ price: { input: 1, output: 2 } }"));
    expect((await chosen(box, proxy)).price).toEqual({ input: 1, output: 2, cached: 1 });
    box.write(USER, "providers: { anthropic: { base_url: 'https://proxy.example' } }\n");
    expect((await chosen(box)).price).toBeUndefined();
  });

  test("names a provider of its own with the service's address, which has its prices", async () => {
    using box = new Sandbox();
    box.write(USER, "providers: { work: { driver: openai, default_model: gpt-6-sol } }\n");
    const choice = await resolveProvider(
      await request(box.sources(), { env: KEYS, flags: { provider: "work" } }),
    );
    expect(choice.price?.input).toBe(2);
  });

  test("a fallback has its own facts", async () => {
    using box = new Sandbox();
    const choice = await resolveProvider(
      await request(box.sources(), {
        env: KEYS,
        flags: { model: "claude-sonnet-5-5" },
        agent: { name: "x", fallback: ["claude-haiku-4-5", "openai/gpt-6-luna"] },
      }),
    );
    expect(choice.fallbacks?.map(({ price }) => price?.input)).toEqual([1, 0.1]);
  });
});

describe("the table", () => {
  test.each(HTTP_DRIVERS.map(({ device }) => device.slice("/dev/llm/".length)))(
    "has the default model of %s",
    async (driver) => {
      const found = HTTP_DRIVERS.find(({ device }) => device === `/dev/llm/${driver}`);
      const variables = { ANTHROPIC_API_KEY: "k", OPENAI_API_KEY: "k", GEMINI_API_KEY: "k" };
      const offer = found && (await deviceOf(found).provider?.detect(variables));
      if (offer) expect(known(at(driver, offer.model)).price).toBeDefined();
    },
  );

  const rows = MODEL_SERVICES.flatMap(({ name, models }) =>
    Object.entries(models).map(([id, model]) => [`${name} ${id}`, model] as const),
  );

  test.each(rows)("%s is plausible", (_, { contextWindow, maxOutput, price, later, asOf }) => {
    expect(maxOutput ?? 0).toBeLessThan(contextWindow);
    expect(Date.parse(asOf)).toBeLessThanOrEqual(NOVEMBER);
    if (later) expect(later.from > asOf).toBe(true);
    const prices = [price, price?.long, later?.price].filter((one): one is TokenPrice => one !== undefined);
    for (const { input, output, cached, cacheWrite } of prices) {
      expect(cached).toBeLessThan(input);
      expect(output).toBeGreaterThan(input);
      expect(cacheWrite ?? input).toBeGreaterThanOrEqual(input);
    }
    if (price?.long) expect(price.long.input).toBeGreaterThan(price.input);
  });

  test("names its sources, and the models of its aliases", () => {
    for (const { sources, origin, aliases = {}, models } of MODEL_SERVICES) {
      expect(sources.every((page) => URL.canParse(page))).toBe(true);
      expect(new URL(origin).origin).toBe(origin);
      for (const id of Object.values(aliases)) expect(models[id]?.price).toBeDefined();
    }
  });
});
