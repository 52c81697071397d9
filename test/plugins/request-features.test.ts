import { describe, expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import anthropic from "../../plugins/anthropic.ts";
import google from "../../plugins/google.ts";
import openai from "../../plugins/openai.ts";
import compatible from "../../plugins/openai-compatible.ts";
import { EFFORTS, type LLMRequest, type Plugin } from "../../src/plugin/index.ts";
import { ask, openModel } from "../support/model-server/device.ts";
import { ModelServer } from "../support/model-server/server.ts";

interface Driver {
  plugin: Plugin;
  name: string;
  /** One that the provider's package knows. */
  model: string;
  address: "url" | "openaiUrl";
  extra?: Record<string, unknown>;
  /** Where its request has the effort, the answer's form and the images. */
  effort: string;
  form: string;
  images: string;
}

const DRIVERS: Driver[] = [
  {
    plugin: anthropic,
    name: "anthropic",
    model: "claude-sonnet-5-5",
    address: "url",
    effort: "output_config.effort",
    form: "output_config.format",
    images: "messages.0.content.1.source.data",
  },
  {
    plugin: google,
    name: "google",
    model: "gemini-3.8-flash",
    address: "url",
    effort: "generationConfig.thinkingConfig.thinkingLevel",
    form: "generationConfig.responseJsonSchema",
    images: "contents.0.parts.1.inlineData.data",
  },
  {
    plugin: openai,
    name: "openai",
    model: "gpt-6-astra",
    address: "openaiUrl",
    extra: { api: "responses" },
    effort: "reasoning.effort",
    form: "text.format",
    images: "input.1.content.1.image_url",
  },
  {
    plugin: openai,
    name: "openai",
    model: "gpt-6-astra",
    address: "openaiUrl",
    extra: { api: "chat" },
    effort: "reasoning_effort",
    form: "response_format.json_schema",
    images: "messages.1.content.1.image_url.url",
  },
  {
    plugin: compatible,
    name: "openai-compatible",
    model: "some-model",
    address: "openaiUrl",
    effort: "reasoning_effort",
    form: "response_format",
    images: "messages.1.content.1.image_url.url",
  },
];
const GRID = DRIVERS.map((driver) => [`${driver.name} ${driver.extra?.api ?? ""}`.trim(), driver] as const);

const CLOSED = {
  type: "object",
  properties: { a: { type: "string" } },
  required: ["a"],
  additionalProperties: false,
};
const PNG = "iVBORw0KGgo=";

/** What arrives at the server of a request with these features. */
async function sent({ plugin, name, model, address, extra }: Driver, more: Partial<LLMRequest>) {
  await using server = await ModelServer.start([{ text: "ok" }]);
  const file = await openModel(plugin, `/dev/llm/${name}`, { base_url: server[address], extra });
  await ask(file, { stream: true, model, tools: [], ...more });
  await file.close();
  const body: unknown = server.requests[0]?.body;
  return (path: string): unknown =>
    path
      .split(".")
      .reduce<unknown>(
        (at, key) => (typeof at === "object" && at !== null ? Reflect.get(at, key) : undefined),
        body,
      );
}

describe.each(GRID)("%s", (_, driver) => {
  test.each([...EFFORTS])("asks for the effort %s, or for its nearest", async (effort) => {
    const at = await sent(driver, { effort });
    expect(["minimal", "low", "medium", "high", "xhigh", "max"]).toContain(String(at(driver.effort)));
    if (effort === "high") expect(at(driver.effort)).toBe("high");
  });

  test("leaves the effort to the provider where none is given", async () => {
    expect((await sent(driver, {}))(driver.effort)).toBeUndefined();
  });

  test("sends images after their text", async () => {
    const image = { media_type: "image/png", data: PNG } as const;
    const at = await sent(driver, { messages: [{ role: "user", content: "look", images: [image] }] });
    expect(String(at(driver.images))).toEndWith(PNG);
  });

  test("sends the output schema only when the provider enforces it", async () => {
    const at = await sent(driver, { output_schema: CLOSED });
    if (driver.plugin === compatible) expect(at(driver.form)).toBeUndefined();
    else expect(JSON.stringify(at(driver.form))).toContain('"additionalProperties":false');
    expect((await sent(driver, {}))(driver.form)).toBeUndefined();
  });
});

describe("the output schema", () => {
  const of = (name: string, api?: string): Driver => {
    const found = DRIVERS.find((one) => one.name === name && (api === undefined || one.extra?.api === api));
    if (!found) throw new Error(name);
    return found;
  };
  const open = { ...CLOSED, additionalProperties: true };
  const tools = [{ name: "Bash", description: "", input: { type: "object" } }];

  test.each<[string, object, boolean | undefined]>([
    ["closed, all required", CLOSED, true],
    ["open", open, false],
    ["with an optional property", { ...CLOSED, required: [] }, false],
    ["with a keyword of its own", { ...CLOSED, properties: { a: { type: "string", minLength: 1 } } }, false],
    ["open further down", { ...CLOSED, properties: { a: { type: "object", properties: {} } } }, false],
    ["a list", { type: "array", items: CLOSED }, undefined],
  ])("is strict with OpenAI when OpenAI supports it: %s", async (_, output_schema, strict) => {
    const at = await sent(of("openai", "responses"), { output_schema, tools });
    expect(at("text.format.strict")).toBe(strict);
  });

  test("is sent with tools to Anthropic if it is closed; an open one is only in the prompt", async () => {
    const at = await sent(of("anthropic"), { output_schema: CLOSED, tools });
    expect(at("output_config.format.type")).toBe("json_schema");
    expect(at("tools.1")).toBeUndefined();
    expect(at("tool_choice")).toBeUndefined();
    const other = await sent(of("anthropic"), { output_schema: open, tools });
    expect([other("output_config"), other("tools.1"), other("tool_choice")]).toEqual([
      undefined,
      undefined,
      undefined,
    ]);
  });

  test("is not sent with tools to Google", async () => {
    const at = await sent(of("google"), { output_schema: CLOSED, tools });
    expect([at("generationConfig.responseJsonSchema"), at("generationConfig.responseMimeType")]).toEqual([
      undefined,
      undefined,
    ]);
  });
});

test("a setting that the model does not have is reported once", async () => {
  await using server = await ModelServer.start({ turns: [{ text: "ok" }], loop: true });
  const notes: string[] = [];
  const file = await openModel(openai, "/dev/llm/openai", {
    base_url: server.openaiUrl,
    extra: { api: "responses" },
    progress: (text) => void notes.push(text),
  });
  for (const stream of [true, false, true])
    await ask(file, { stream, model: "gpt-4o", effort: "high", tools: [] });
  await file.close();
  expect(notes).toEqual(["effort high is left out: gpt-4o has no such setting"]);
});

describe("docs/providers.md", () => {
  const document = readFileSync(join(import.meta.dir, "../../docs/providers.md"), "utf8");
  const [, section = ""] = document.split("## Effort, images, output schema");

  test.each(["anthropic", "openai", "google", "openai-compatible", "replay", "claude", "cursor"])(
    "names the abilities of %s like the driver",
    async (name) => {
      const row = section.split("\n").find((line) => line.startsWith(`| \`${name}\``)) ?? "";
      const [effort, images] = row.split("|").slice(2, 4);
      const { default: plugin } = await import(`../../plugins/${name}`);
      // Opening a CLI needs an existing program, which is not started.
      const extra = ["claude", "cursor"].includes(name) ? { command: process.execPath } : {};
      const file = await openModel(plugin, `/dev/llm/${name}`, { base_url: "http://127.0.0.1:1", extra });
      const stat = await file.stat();
      await file.close();
      expect([effort?.trim().startsWith("yes"), images?.trim().startsWith("yes")]).toEqual([
        stat.effort === true,
        stat.images === true,
      ]);
    },
  );
});
