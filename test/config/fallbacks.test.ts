import { describe, expect, test } from "bun:test";
import { type ProviderRequest, resolveProvider } from "../../src/config/providers/provider-choice.ts";
import { KEYS, request, USER } from "./provider-request.ts";
import { Sandbox } from "./sandbox.ts";

describe("what a run may fall back to", () => {
  const left = async (
    box: Sandbox,
    fallback: string[],
    more: Partial<ProviderRequest> = {},
    agent: { provider?: string; model?: string } = { provider: "anthropic", model: "a" },
  ) => {
    const warnings: string[] = [];
    const choice = await resolveProvider(
      await request(box.sources(), {
        env: KEYS,
        agent: { name: "x", ...agent, fallback },
        warn: (text) => void warnings.push(text),
        ...more,
      }),
    );
    const named = (choice.fallbacks ?? []).map(({ name, model }) => `${name}/${model}`);
    return { choice, named, warnings };
  };

  test("is what the agent names, in its order, each with its own facts, key and gate", async () => {
    using box = new Sandbox();
    box.write(USER, "providers: { anthropic: { models: { b: { max_output: 7 } } } }\n");
    const { choice, named, warnings } = await left(box, ["b", "openai/c", "openrouter/z-ai/glm", "d"], {
      env: { ...KEYS, OPENROUTER_API_KEY: "sk-or" },
    });
    expect(named).toEqual(["anthropic/b", "openai/c", "openrouter/z-ai/glm", "anthropic/d"]);
    const [first, second, third] = choice.fallbacks ?? [];
    expect(first).toMatchObject({ maxOutput: 7, gateKey: choice.gateKey });
    expect(second).toMatchObject({ device: "/dev/llm/openai", maxOutput: undefined });
    expect(await second?.secret()).toBe("sk-openai");
    expect(await third?.secret()).toBe("sk-or");
    expect(warnings).toEqual([]);
  });

  test("reads a name with a slash as a model if its first part names no provider", async () => {
    using box = new Sandbox();
    const { named } = await left(box, ["mistral/large"]);
    expect(named).toEqual(["anthropic/mistral/large"]);
  });

  test("has nothing twice, and not what is in use", async () => {
    using box = new Sandbox();
    expect((await left(box, ["a", "b", "anthropic/b"])).named).toEqual(["anthropic/b"]);
  });

  test("leaves out what cannot be used, with a notice", async () => {
    using box = new Sandbox();
    const { named, warnings } = await left(box, ["openrouter/x", "b"]);
    expect(named).toEqual(["anthropic/b"]);
    expect(warnings).toHaveLength(1);
    expect(warnings[0]).toContain("openrouter/x is left out");
    expect(warnings[0]).toContain("OPENROUTER_API_KEY");
  });

  test("is never of another provider than the one that a flag asks for", async () => {
    using box = new Sandbox();
    const { named, warnings } = await left(box, ["openai/c", "anthropic/b"], {
      flags: { provider: "anthropic" },
    });
    expect(named).toEqual(["anthropic/b"]);
    expect(warnings.join()).toContain("openai/c is left out: it belongs to another provider than anthropic");
    // The agent's models alone are meant for the agent's provider, not for the one of the flag.
    expect((await left(box, ["b"], { flags: { provider: "openai", model: "m" } })).named).toEqual([]);
  });

  test("is the provider entry's list if the agent has none; empty if the agent says so", async () => {
    using box = new Sandbox();
    box.write(USER, "providers: { anthropic: { default_model: a, fallback: [b, openai/c] } }\n");
    const names = async (fallback: string[] | undefined) =>
      (
        await resolveProvider(await request(box.sources(), { env: KEYS, agent: { name: "x", fallback } }))
      ).fallbacks?.map(({ name, model }) => `${name}/${model}`);
    expect(await names(undefined)).toEqual(["anthropic/b", "openai/c"]);
    expect(await names([])).toEqual([]);
    expect(await names(["d"])).toEqual(["anthropic/d"]);
  });

  test("of a child is its agent's, else the parent's for the parent's own model; a parent's flag applies", async () => {
    using box = new Sandbox();
    const parent = (await left(box, ["b"], { flags: { provider: "anthropic" } })).choice;
    expect((await left(box, ["c", "openai/d"], { parent }, {})).named).toEqual(["anthropic/c"]);
    const child = async (model?: string) =>
      (
        await resolveProvider(
          await request(box.sources(), { env: KEYS, agent: { name: "y", model }, parent }),
        )
      ).fallbacks?.map((one) => one.model);
    expect(await child()).toEqual(["b"]);
    expect(await child("other")).toEqual([]);
  });

  test("of a run that plays a recording is nothing, and all that it spawns plays it too", async () => {
    using box = new Sandbox();
    const flags = { provider: "replay", model: "run.yaml" };
    const { choice, named } = await left(box, ["b", "replay/other"], { flags });
    expect(named).toEqual([]);
    const agent = { name: "y", provider: "anthropic", model: "a" };
    const env = { ...KEYS, RNIX_PROVIDER: "openai", RNIX_MODEL: "m" };
    const child = await resolveProvider(
      await request(box.sources(), { env, agent, parent: choice, flags: { provider: "openai", model: "m" } }),
    );
    expect(child).toMatchObject({ name: "replay", model: "run.yaml", because: "its parent's" });
    const other = await resolveProvider(
      await request(box.sources(), {
        env,
        agent,
        parent: choice,
        flags: { provider: "replay", model: "other.yaml" },
      }),
    );
    expect(other).toMatchObject({ name: "replay", model: "other.yaml", because: "--provider" });
  });

  test("of a resumed run is its remaining list, whatever the agent says today", async () => {
    using box = new Sandbox();
    const fallback = [
      { provider: "openai", model: "c" },
      { provider: "gone", model: "d" },
    ];
    const flags = { provider: "anthropic", model: "b" };
    const { named, warnings, choice } = await left(box, ["x"], { flags, fallback, byFlag: false });
    expect(named).toEqual(["openai/c"]);
    expect(warnings.join()).toContain('no provider "gone"');
    expect(choice.byFlag).toBe(false);
  });
});

test("a run that its daemon resumes has the keys of its remaining fallbacks", async () => {
  using box = new Sandbox();
  const parent = await resolveProvider(
    await request(box.sources(), {
      env: KEYS,
      agent: { name: "x", provider: "anthropic", model: "a", fallback: ["openai/c", "openai/d"] },
    }),
  );
  const goesOn = await resolveProvider(
    await request(box.sources(), {
      parent,
      flags: { provider: "anthropic", model: "a" },
      byFlag: false,
      fallback: [{ provider: "openai", model: "d" }],
    }),
  );
  expect(goesOn.fallbacks?.map(({ name, model }) => `${name}/${model}`)).toEqual(["openai/d"]);
  expect(await goesOn.fallbacks?.[0]?.secret()).toBe("sk-openai");
});
