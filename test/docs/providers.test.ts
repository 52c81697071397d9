import { describe, expect, test } from "bun:test";
import { loadAgent } from "../../src/config/agents/agents.ts";
import { MODEL_SERVICES } from "../../src/config/providers/model-facts.ts";
import { loadProviders, PRESETS, type ProviderDefaults } from "../../src/config/providers/providers.ts";
import type { ModelPrice } from "../../src/plugin/index.ts";
import { Sandbox } from "../config/sandbox.ts";
import { deviceOf, HTTP_DRIVERS } from "../support/model-server/conformance/driver.ts";
import { STOCK_FACTS } from "../support/stock-drivers.ts";
import { providersDocument, writeProvidersDocument } from "./providers-document.ts";

const document = providersDocument();
const known: [string, ProviderDefaults][] = [...STOCK_FACTS, ...Object.entries(PRESETS)];

describe("docs/providers.md", () => {
  test.each(known)("has the key, the address and the model of %s", async (name, defaults) => {
    const row = document.split("\n").find((line) => new RegExp(`^\\| \`${name}\`[ ,]`).test(line)) ?? "";
    const { keyEnvs = [], baseUrlEnv, baseUrl, defaultModel } = defaults;
    for (const part of [...keyEnvs, baseUrlEnv, baseUrl, defaultModel].filter((one) => one !== undefined))
      expect(row).toContain(`\`${part}\``);
    for (const driver of HTTP_DRIVERS.filter(({ device }) => device === `/dev/llm/${name}`)) {
      const offer = await deviceOf(driver).provider?.detect(everyKey());
      if (offer) expect(row).toContain(`\`${offer.model}\``);
    }
  });

  /** With UPDATE_DOCS=1 the table is written instead of compared. */
  test("has the table of known models that is in the code", () => {
    const BETWEEN = /(<!-- known models -->\n)[\s\S]*?(<!-- \/known models -->)/;
    expect(document).toMatch(BETWEEN);
    const expected = document.replace(BETWEEN, (_all, head, foot) => `${head}\n${knownModels()}\n${foot}`);
    if (process.env.UPDATE_DOCS) writeProvidersDocument(expected);
    else expect(document).toBe(expected);
  });

  test("has only known providers in its table", () => {
    const [table = ""] = /^\| provider \|[\s\S]*?\n\n/m.exec(document) ?? [];
    const names = [...table.matchAll(/^\| `([^`]+)`[ ,]/gm)].map(([, name]) => name);
    expect(names.toSorted()).toEqual(known.map(([name]) => name).toSorted());
  });

  test("has a valid example", async () => {
    const [, yaml = ""] = /<!-- example: providers.yaml -->\n```yaml\n([\s\S]*?)```/.exec(document) ?? [];
    using box = new Sandbox();
    box.write("home/.config/rnix/providers.yaml", yaml);
    const { byName, defaults, withheld } = await loadProviders(box.sources());
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

test("the example of fallback models in docs/providers.md is a valid agent", async () => {
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
  return Object.fromEntries(known.flatMap(([, { keyEnvs = [] }]) => keyEnvs.map((name) => [name, "key"])));
}

function knownModels(): string {
  const rows = MODEL_SERVICES.flatMap(({ name, models }) =>
    Object.entries(models).flatMap(([id, model]) => {
      const { contextWindow, maxOutput, price, later, asOf } = model;
      const facts = [contextWindow.toLocaleString("en"), maxOutput?.toLocaleString("en") ?? ""];
      const lines = [[name, `\`${id}\``, ...facts, ...prices(price), asOf]];
      if (price?.long)
        lines.push([
          "",
          `above ${price.long.above.toLocaleString("en")} tokens`,
          "",
          "",
          ...prices(price.long),
          "",
        ]);
      if (later) lines.push(["", `from ${later.from}`, "", "", ...prices(later.price), ""]);
      return lines;
    }),
  );
  const head = [
    "service",
    "model",
    "window",
    "longest answer",
    "input",
    "cached",
    "cache write",
    "output",
    "as of",
  ];
  const rule = head.map((_, i) => (i < 2 || i === 8 ? "---" : "--:"));
  return [head, rule, ...rows].map((cells) => `| ${cells.join(" | ")} |\n`.replace(/ {2,}/g, " ")).join("");
}

function prices(price: Omit<ModelPrice, "long"> | undefined): string[] {
  if (!price) return ["", "", "", ""];
  const { input, cached, cacheWrite = input, output } = price;
  return [input, cached, cacheWrite, output].map((usd) => String(Math.round(usd * 1e6) / 1e6));
}
