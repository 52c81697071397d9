import { describe, expect, test } from "bun:test";
import { resolveProvider } from "../../src/config/provider-choice.ts";
import { FakeClock } from "../support/fake-clock.ts";
import { until } from "../support/until.ts";
import { byKey, device, request, STOCK, USER } from "./provider-request.ts";
import { failure, Sandbox } from "./sandbox.ts";

describe("a driver that is asked what it finds", () => {
  test("and fails is warned of, and the others are asked all the same", async () => {
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
