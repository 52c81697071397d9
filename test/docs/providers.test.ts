import { describe, expect, test } from "bun:test";
import { loadAgent } from "../../src/config/agents.ts";
import { loadProviders } from "../../src/config/providers.ts";
import { DRIVERS, PRESETS, type ProviderDefaults } from "../../src/config/stock-providers.ts";
import { Sandbox } from "../config/sandbox.ts";
import { deviceOf, HTTP_DRIVERS } from "../support/model-server/conformance/driver.ts";
import { providersDocument } from "./providers-document.ts";

const document = providersDocument();
const known: [string, ProviderDefaults][] = [...Object.entries(DRIVERS), ...Object.entries(PRESETS)];

describe("docs/providers.md", () => {
  test.each(known)("has the key, the address and the model of %s", async (name, defaults) => {
    const row = document.split("\n").find((line) => new RegExp(`^\\| \`${name}\`[ ,]`).test(line)) ?? "";
    const { keyEnvs, baseUrlEnv, baseUrl, defaultModel } = defaults;
    for (const part of [...keyEnvs, baseUrlEnv, baseUrl, defaultModel].filter((one) => one !== undefined))
      expect(row).toContain(`\`${part}\``);
    for (const driver of HTTP_DRIVERS.filter(({ device }) => device === `/dev/llm/${name}`)) {
      const offer = await deviceOf(driver).provider?.detect(everyKey());
      if (offer) expect(row).toContain(`\`${offer.model}\``);
    }
  });

  test("has no provider in its table that is not known", () => {
    const [table = ""] = /^\| provider \|[\s\S]*?\n\n/m.exec(document) ?? [];
    const names = [...table.matchAll(/^\| `([^`]+)`[ ,]/gm)].map(([, name]) => name);
    expect(names.toSorted()).toEqual(known.map(([name]) => name).toSorted());
  });

  test("has an example that is read as it stands", async () => {
    const [, yaml = ""] = /<!-- example: providers.yaml -->\n```yaml\n([\s\S]*?)```/.exec(document) ?? [];
    using box = new Sandbox();
    box.write("home/.config/rnix/providers.yaml", yaml);
    const { byName, defaults, withheld } = await loadProviders(box.places());
    expect(withheld).toEqual([]);
    expect(defaults.map(({ name }) => name)).toEqual(["work"]);
    expect(byName.get("work")).toMatchObject({
      driver: "openai-compatible",
      baseUrl: "https://llm.example.com/v1",
      defaultModel: "qwen4-coder",
      models: { "qwen4-coder": { contextWindow: 262_144, price: { input: 0.4, output: 1.6, cached: 0.1 } } },
    });
    expect(byName.get("google")?.extra).toEqual({ thinkingConfig: { includeThoughts: true } });
  });
});

test("the example of fallback models in docs/providers.md is an agent's", async () => {
  const [, yaml = ""] = /<!-- example: agent.yaml -->\n```yaml\n([\s\S]*?)```/.exec(document) ?? [];
  using box = new Sandbox();
  box.write("home/work/agents/a/agent.yaml", `name: a\ndescription: d\n${yaml}`);
  box.write("home/work/agents/a/instructions.md", "Be careful.");
  const { provider, model, fallback } = await loadAgent("a", box.trusted());
  expect({ provider, model, fallback }).toEqual({
    provider: "anthropic",
    model: "claude-opus-5",
    fallback: ["claude-sonnet-5-5", "openai/gpt-6-astra", "openrouter/z-ai/glm-6"],
  });
});

function everyKey(): Record<string, string> {
  return Object.fromEntries(known.flatMap(([, { keyEnvs }]) => keyEnvs.map((name) => [name, "key"])));
}
