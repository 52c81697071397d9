import { expect, test } from "bun:test";
import { describeProviders } from "../../src/config/providers/provider-list.ts";
import { request, USER } from "./provider-request.ts";
import { Sandbox } from "./sandbox.ts";

test("every provider is described with what it lacks, and without its key", async () => {
  using box = new Sandbox();
  box.write(
    USER,
    "providers: { work: { driver: openai, base_url: 'https://w.example/v1', api_key_env: WORK_KEY } }\n",
  );
  const lines = await describeProviders(
    await request(box.sources(), { env: { OPENAI_API_KEY: "sk-openai" } }),
  );
  expect(JSON.stringify(lines)).not.toContain("sk-openai");
  expect(lines.map(({ name, key, problem }) => [name, key, problem !== null])).toEqual([
    ["anthropic", "missing", true],
    ["claude", "not needed", true],
    ["cursor", "missing", true],
    ["google", "missing", true],
    ["ollama", "not needed", true],
    ["openai", "set", false],
    ["openai-compatible", "set", true],
    ["openrouter", "missing", true],
    ["replay", "not needed", false],
    ["work", "missing", true],
  ]);
});
