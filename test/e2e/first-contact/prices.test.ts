import { describe, expect, test } from "bun:test";
import { Machine, type RunOptions } from "../support/machine.ts";
import { type Receipt, receiptOf } from "../support/verdict.ts";

/** A key is all that a new user has. */
const KEYS = { ANTHROPIC_API_KEY: "sk-ant-1234567890", OPENAI_API_KEY: "sk-1234567890" };

/** A driver that replaces the stock one and makes no request. Of 1,000 input tokens 600 are cached and 300 written. */
const driver = (name: string, service: string) => `
import { definePlugin } from "rnix/plugin";

export default definePlugin({
  name: "${name}",
  devices: {
    "/dev/llm/${name}": {
      provider: { service: "${service}", detect: async () => null },
      factory: () => {
        const events = [
          { type: "text_delta", text: "Done." },
          {
            type: "usage",
            usage: { input_tokens: 1000, output_tokens: 50, cached_tokens: 600, cache_write_tokens: 300 },
          },
          { type: "stop", reason: "end_turn" },
        ];
        return {
          async write() {},
          async read() {
            const event = events.shift();
            return event === undefined ? "" : JSON.stringify(event);
          },
          async close() {},
          async stat() {
            return { name: "${name}", size: 0, isDevice: true, devicePath: "/dev/llm/${name}" };
          },
        };
      },
    },
  },
});
`;

async function spawn(machine: Machine, args: string[], options: RunOptions = {}): Promise<Receipt> {
  const env = { ...KEYS, ...options.env };
  const done = await machine.run(["spawn", "go", "--output", "json", "--no-daemon", ...args], {
    ...options,
    env,
  });
  return receiptOf(done);
}

describe("without a line of configuration", () => {
  test.each([
    [
      "anthropic",
      "https://api.anthropic.com",
      "claude-sonnet-5-5",
      100 * 2 + 600 * 0.1 + 300 * 2.5 + 50 * 10,
    ],
    ["openai", "https://api.openai.com", "gpt-6-astra", 100 * 10 + 600 * 1 + 300 * 12.5 + 50 * 50],
    [
      "anthropic",
      "https://api.anthropic.com",
      "claude-haiku-4-5-20251001",
      100 * 1 + 600 * 0.1 + 300 * 1.25 + 50 * 5,
    ],
  ])(
    "a run with %s at %s and %s shows its cost, and keeps to --max-cost",
    async (name, service, model, cost) => {
      await using machine = new Machine();
      machine.write(`${machine.configDir}/plugins/${name}.ts`, driver(name, service));
      const receipt = await spawn(machine, ["--provider", name, "--model", model, "--max-cost", "1"]);
      expect(receipt).toMatchObject({ exit_code: 0, model, result: "Done." });
      expect(receipt.cost_usd).toBeCloseTo(cost / 1e6, 9);
      expect(receipt.usage).toMatchObject({ cached_tokens: 600, cache_write_tokens: 300 });
      const shown = await machine.run(["show", receipt.uuid]);
      expect(shown.stdout).toMatch(/cost +\$0\.00/);
    },
  );

  test("a cost limit that covers no call ends the run before one is made", async () => {
    await using machine = new Machine();
    const receipt = await spawn(machine, ["--max-cost", "0.000001"]);
    expect(receipt).toMatchObject({ exit_code: 2, exit_reason: "budget_exceeded", tokens_used: 0 });
  });

  test.each([
    ["another address", "anthropic", { ANTHROPIC_BASE_URL: "http://127.0.0.1:1" }],
    ["OpenRouter", "openrouter", { OPENROUTER_API_KEY: "sk-or-1234567890" }],
    ["Ollama", "ollama", {}],
  ])("%s has no price, and a cost limit names the address and the file", async (_, provider, env) => {
    await using machine = new Machine();
    const run = ["--provider", provider, "--model", "claude-sonnet-5-5", "--max-cost", "1"];
    const done = await machine.run(["spawn", "go", "--no-daemon", ...run], { env: { ...KEYS, ...env } });
    expect(done.code).toBe(64);
    expect(done.stderr).toMatch(/the price of claude-sonnet-5-5 at http\S+ is not known/);
    expect(done.stderr).toContain("providers.yaml");
  });
});
