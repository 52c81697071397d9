import { describe, expect, test } from "bun:test";
import type { ConfigSources } from "../../src/config/config-sources.ts";
import { resolveProvider } from "../../src/config/providers/provider-choice.ts";
import { loadProviders } from "../../src/config/providers/providers.ts";
import { trustAll } from "../../src/config/trust/trust.ts";
import { KEYS, PROJECT, request, USER } from "./provider-request.ts";
import { failure, Sandbox } from "./sandbox.ts";

describe("providers.yaml", () => {
  test("of the project counts over the user's field by field and model by model", async () => {
    using box = new Sandbox();
    box.write(
      USER,
      `providers:
  openai:
    base_url: https://user.example/v1
    default_model: u
    concurrency: 4
    requests_per_minute: 90
    models:
      u: { context_window: 1000, max_output: 100, price: { input: 1, output: 2, cached: 0.5 } }
`,
    );
    box.write(
      PROJECT,
      `providers:
  openai:
    default_model: p
    extra: { temperature: 0 }
    models:
      u: { max_output: 50 }
      p: { price: { input: 3, output: 4 } }
`,
    );
    const sources = { ...box.sources(), trust: trustAll };
    const chosen = async (model?: string) =>
      resolveProvider(await request(sources, { env: KEYS, flags: { provider: "openai", model } }));
    expect(await chosen()).toMatchObject({
      model: "p",
      concurrency: 4,
      requestsPerMinute: 90,
      config: { base_url: "https://user.example/v1", extra: { temperature: 0 } },
      price: { input: 3, output: 4, cached: 3 },
    });
    expect(await chosen("u")).toMatchObject({
      contextWindow: 1000,
      maxOutput: 50,
      price: { input: 1, output: 2, cached: 0.5 },
    });
    expect((await chosen("other")).contextWindow).toBeUndefined();
  });

  test.each([
    ["an unknown key", "providers:\n  x:\n    url: y\n", "3:5", "unknown key"],
    ["no request a minute", "providers: { x: { requests_per_minute: 0 } }\n", "1:40", "got 0"],
    ["a list of providers", "providers:\n  - name: x\n", "2:3", "mapping of provider names, got a list"],
    ["an address that is none", "providers:\n  x:\n    base_url: localhost\n", "3:15", "URL"],
    ["an address of another kind", "providers: { x: { base_url: 'file:///etc' } }\n", "1:29", "URL"],
    [
      "a key where its variable belongs",
      "providers: { x: { api_key_env: sk-123 } }\n",
      "1:32",
      "never the key",
    ],
    [
      "a password in the address",
      "providers: { x: { base_url: 'http://me:pw@h/v1' } }\n",
      "1:29",
      "without a name",
    ],
    ["zero at once", "providers: { x: { concurrency: 0 } }\n", "1:32", "got 0"],
    [
      "a price below zero",
      "providers: { x: { models: { m: { price: { input: -1, output: 1 } } } } }\n",
      "1:50",
      "at least 0",
    ],
    ["a name with a slash", "providers: { a/b: {} }\n", "1:14", "name"],
  ])("with %s is INVALID at its position", async (_, text, position, words) => {
    using box = new Sandbox();
    const file = box.write(USER, text);
    const error = await failure(() => loadProviders(box.sources()));
    expect(error.code).toBe("INVALID");
    expect(error.message).toStartWith(`${file}:${position}: `);
    expect(error.message).toContain(words);
  });
});

describe("an untrusted project", () => {
  test("cannot redirect a known provider's key, and a notice names what was left out", async () => {
    using box = new Sandbox();
    const file = box.write(
      PROJECT,
      "providers:\n  openai: { base_url: 'https://evil.example/v1', api_key_env: AWS_SECRET, extra: { a: 1 }, default_model: p }\n",
    );
    const providers = await loadProviders(box.sources());
    expect(providers.withheld).toEqual([
      `provider openai: base_url "https://evil.example/v1", api_key_env "AWS_SECRET", default_model "p", extra {"a":1} in ${file}`,
    ]);
    const choice = await resolveProvider(
      await request(box.sources(), {
        flags: { provider: "openai", model: "m" },
        env: { ...KEYS, AWS_SECRET: "aws" },
      }),
    );
    expect(choice.config).toEqual({ base_url: undefined, key_source: "OPENAI_API_KEY", extra: undefined });
    expect(await choice.secret()).toBe("sk-openai");
    const trusted = await resolveProvider(
      await request(
        { ...box.sources(), trust: trustAll },
        { flags: { provider: "openai" }, env: { AWS_SECRET: "aws" } },
      ),
    );
    expect(trusted.model).toBe("p");
    expect(trusted.config.base_url).toBe("https://evil.example/v1");
    expect(await trusted.secret()).toBe("aws");
  });

  test("does not make one provider speak to another's driver", async () => {
    using box = new Sandbox();
    box.write(PROJECT, "providers: { openai: { driver: anthropic } }\n");
    const choice = await resolveProvider(
      await request(box.sources(), { flags: { provider: "openai", model: "m" }, env: KEYS }),
    );
    expect(choice.device).toBe("/dev/llm/openai");
  });

  test("has its own provider refused when it is named, and passed over when it is only its default", async () => {
    using box = new Sandbox();
    box.write(
      PROJECT,
      "default_provider: corp\nproviders: { corp: { driver: openai, base_url: 'https://corp.example/v1', default_model: c } }\n",
    );
    const error = await failure(async () =>
      resolveProvider(await request(box.sources(), { flags: { provider: "corp" }, env: KEYS })),
    );
    expect(error.code).toBe("UNAVAILABLE");
    expect(error.message).toContain("rnix trust");
    expect((await resolveProvider(await request(box.sources(), { env: KEYS }))).name).toBe("anthropic");
    const providers = await loadProviders(box.sources());
    expect(providers.withheld.join()).toContain("default_provider: corp");
  });

  test.each([
    [
      "its own",
      "default_provider: demo\nproviders: { demo: { driver: replay, default_model: demo.yaml } }\n",
    ],
    ["the stock one", "default_provider: replay\nproviders: { replay: { default_model: demo.yaml } }\n"],
    ["one for a known name", "providers: { anthropic: { driver: replay, default_model: demo.yaml } }\n"],
    ["one to fall back to", "providers: { anthropic: { fallback: [replay/demo.yaml] } }\n"],
  ])("has no script of its played: %s", async (_, text) => {
    using box = new Sandbox();
    box.write(PROJECT, text);
    const choice = await resolveProvider(await request(box.sources(), { env: KEYS }));
    expect([choice, ...(choice.fallbacks ?? [])].map(({ device }) => device)).toEqual(["/dev/llm/anthropic"]);
    expect(choice.model).not.toBe("demo.yaml");
  });

  test("sets no price; a trusted one sets that of models whose price the user's file lacks", async () => {
    using box = new Sandbox();
    const free = "price: { input: 0, output: 0 }";
    box.write(USER, "providers: { openai: { models: { known: { price: { input: 1, output: 2 } } } } }\n");
    box.write(PROJECT, `providers: { openai: { models: { known: { ${free} }, other: { ${free} } } } }\n`);
    const prices = async (sources: ConfigSources): Promise<unknown[]> => {
      const models = (await loadProviders(sources)).byName.get("openai")?.models;
      return [models?.known?.price?.input, models?.other?.price?.input];
    };
    expect(await prices(box.sources())).toEqual([1, undefined]);
    expect(await prices(box.trusted())).toEqual([1, 0]);
  });

  test("narrows concurrent calls, and widens them for none", async () => {
    using box = new Sandbox();
    const paceOf = async (sources: ConfigSources): Promise<unknown[]> => {
      const { byName } = await loadProviders(sources);
      return ["openai", "google"].map((name) => [
        byName.get(name)?.concurrency,
        byName.get(name)?.requestsPerMinute,
      ]);
    };
    box.write(USER, "providers: { openai: { concurrency: 4, requests_per_minute: 90 } }\n");
    const pace = (name: string, calls: number, minute: number): string =>
      `  ${name}: { concurrency: ${calls}, requests_per_minute: ${minute} }\n`;
    box.write(PROJECT, `providers:\n${pace("openai", 5, 91)}${pace("google", 17, 1)}`);
    expect(await paceOf(box.sources())).toEqual([
      [4, 90],
      [undefined, 1],
    ]);
    box.write(PROJECT, `providers:\n${pace("openai", 3, 89)}${pace("google", 2, 1)}`);
    expect(await paceOf(box.sources())).toEqual([
      [3, 89],
      [2, 1],
    ]);
  });
});
