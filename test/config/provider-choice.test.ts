import { describe, expect, test } from "bun:test";
import { userEnv } from "../../src/config/environment/environment.ts";
import { type ProviderRequest, resolveProvider } from "../../src/config/providers/provider-choice.ts";
import { byKey, choose, KEYS, PROJECT, request, STOCK, USER } from "./provider-request.ts";
import { failure, Sandbox } from "./sandbox.ts";

interface Case {
  title: string;
  flags?: ProviderRequest["flags"];
  env?: Record<string, string>;
  agent?: { provider?: string; model?: string };
  project?: string;
  user?: string;
  untrusted?: true;
  /** "provider model because" */
  chosen: string;
}

const U = "default_provider: openai\nproviders: { openai: { default_model: u } }\n";
const P = "default_provider: anthropic\nproviders: { anthropic: { default_model: p } }\n";
const RNIX = { RNIX_PROVIDER: "openai", RNIX_MODEL: "e" };

const ORDER: Case[] = [
  {
    title: "the flag before all",
    flags: { provider: "anthropic", model: "f" },
    env: RNIX,
    agent: { provider: "openai", model: "a" },
    project: P,
    user: U,
    chosen: "anthropic f --provider",
  },
  {
    title: "RNIX_PROVIDER before the agent",
    env: RNIX,
    agent: { provider: "anthropic", model: "a" },
    project: P,
    chosen: "openai e RNIX_PROVIDER",
  },
  {
    title: "the agent before the files",
    agent: { provider: "openai", model: "a" },
    project: P,
    chosen: "openai a the agent x",
  },
  { title: "the project's file before the user's", project: P, user: U, chosen: "anthropic p project" },
  {
    title: "the user's where the project is not trusted",
    project: P,
    user: U,
    untrusted: true,
    chosen: "openai u user",
  },
  { title: "the user's file before the machine", user: U, chosen: "openai u user" },
  { title: "what is found on the machine", chosen: "anthropic claude-default found ANTHROPIC_API_KEY" },
  {
    title: "a model's flag with the provider of the environment",
    flags: { model: "f" },
    env: RNIX,
    chosen: "openai f RNIX_PROVIDER",
  },
  {
    title: "a provider's flag without the model that RNIX_MODEL means for another",
    flags: { provider: "anthropic" },
    env: RNIX,
    chosen: "anthropic claude-default --provider",
  },
  {
    title: "a provider's flag with an RNIX_MODEL that is meant for none",
    flags: { provider: "anthropic" },
    env: { RNIX_MODEL: "e" },
    chosen: "anthropic e --provider",
  },
  {
    title: "a provider's flag without the agent's model for another",
    flags: { provider: "openai" },
    agent: { provider: "anthropic", model: "a" },
    chosen: "openai gpt-default --provider",
  },
  {
    title: "a provider's flag with the agent's model for it",
    flags: { provider: "openai" },
    agent: { provider: "openai", model: "a" },
    chosen: "openai a --provider",
  },
  {
    title: "the agent's model, for any provider, with the found provider",
    agent: { model: "a" },
    chosen: "anthropic a found ANTHROPIC_API_KEY",
  },
  {
    title: "the file's default model before the driver's",
    user: "providers: { anthropic: { default_model: u } }\n",
    chosen: "anthropic u found ANTHROPIC_API_KEY",
  },
  { title: "an empty RNIX_PROVIDER like none", env: { RNIX_PROVIDER: "" }, user: U, chosen: "openai u user" },
  {
    title: "a script for replay, which needs no key",
    flags: { provider: "replay", model: "demo.yaml" },
    chosen: "replay demo.yaml --provider",
  },
];

describe("the provider of a run is", () => {
  for (const { title, flags, env, agent, project, user, untrusted, chosen } of ORDER) {
    test(title, async () => {
      using box = new Sandbox();
      const files = [user && box.write(USER, user), project && box.write(PROJECT, project)];
      const choice = await resolveProvider(
        await request(untrusted ? box.sources() : box.trusted(), {
          flags,
          env: { ...KEYS, ...env },
          agent: agent && { name: "x", ...agent },
        }),
      );
      const because = choice.because
        .replace(`default_provider of ${files[0]}`, "user")
        .replace(`default_provider of ${files[1]}`, "project");
      expect(`${choice.name} ${choice.model} ${because}`).toBe(chosen);
      expect(choice.device).toBe(`/dev/llm/${choice.name}`);
    });
  }

  test("one whose key is only in the user's env file", async () => {
    using box = new Sandbox();
    box.write("home/.config/rnix/env", "# keys\nexport OPENAI_API_KEY='sk-file'\n\n", 0o600);
    const choice = await resolveProvider(await request(box.sources(), { userEnv: userEnv(box.configDir) }));
    expect(choice).toMatchObject({ name: "openai", because: "found OPENAI_API_KEY in ~/.config/rnix/env" });
    expect(await choice.secret()).toBe("sk-file");
  });

  test("the driver of a plugin, by its name or by its detection", async () => {
    using box = new Sandbox();
    const devices = { entries: () => [...STOCK, byKey("mine", "MINE", "m1")] };
    const env = { MINE: "1" };
    const named = await resolveProvider(
      await request(box.sources(), { devices, env, flags: { provider: "mine" } }),
    );
    expect(named).toMatchObject({ name: "mine", device: "/dev/llm/mine", model: "m1" });
    const found = await resolveProvider(await request(box.sources(), { devices, env }));
    expect(found).toMatchObject({ name: "mine", because: "found mine on this machine" });
  });
});

describe("no provider", () => {
  test("to be found is UNAVAILABLE, with the shortest way to one", async () => {
    using box = new Sandbox();
    const error = await failure(async () => resolveProvider(await request(box.sources())));
    expect(error.code).toBe("UNAVAILABLE");
    for (const word of ["ANTHROPIC_API_KEY", "OPENAI_API_KEY", "--provider", "rnix demo"]) {
      expect(error.message).toContain(word);
    }
  });

  test("of that name is NOT_FOUND with the nearest and all others, for every source of the name", async () => {
    using box = new Sandbox();
    for (const more of [
      { flags: { provider: "opnai" } },
      { env: { RNIX_PROVIDER: "opnai" } },
      { agent: { name: "x", provider: "opnai" } },
    ]) {
      const error = await failure(async () => resolveProvider(await request(box.sources(), more)));
      expect(error.code).toBe("NOT_FOUND");
      expect(error.message).toBe(
        'There is no provider "opnai". Did you mean "openai"? There are: anthropic, claude, cursor, google, ollama, openai, openai-compatible, openrouter, replay.',
      );
    }
  });

  test("without its key is UNAVAILABLE before anything is spent, and names the variable", async () => {
    using box = new Sandbox();
    box.write(
      USER,
      "providers: { work: { driver: openai, base_url: 'https://w.example/v1', api_key_env: WORK_KEY } }\n",
    );
    const missing = async (provider: string, env = {}) =>
      failure(async () =>
        resolveProvider(await request(box.sources(), { flags: { provider, model: "m" }, env })),
      );
    expect((await missing("openai")).message).toContain("OPENAI_API_KEY");
    expect((await missing("anthropic", { ANTHROPIC_API_KEY: "" })).code).toBe("UNAVAILABLE");
    expect((await missing("work", KEYS)).message).toContain("WORK_KEY");
  });

  test("without a driver, or a server's address, is UNAVAILABLE", async () => {
    using box = new Sandbox();
    box.write(
      USER,
      "providers: { x: { driver: opnai, default_model: m }, y: { driver: openai-compatible } }\n",
    );
    const lacking = async (provider: string) =>
      failure(async () => resolveProvider(await request(box.sources(), { flags: { provider }, env: KEYS })));
    expect(await lacking("x")).toMatchObject({ code: "UNAVAILABLE" });
    expect((await lacking("x")).message).toContain('Did you mean "openai"?');
    expect((await lacking("y")).message).toContain("base_url");
  });

  test("with no model is INVALID and says how to name one", async () => {
    using box = new Sandbox();
    const error = await failure(async () =>
      resolveProvider(await request(box.sources(), { flags: { provider: "replay" } })),
    );
    expect(error.code).toBe("INVALID");
    expect(error.message).toContain("--model");
  });
});

describe("a preset", () => {
  test.each([
    [undefined, "http://127.0.0.1:11434/v1"],
    ["gpu-box", "http://gpu-box:11434/v1"],
    ["gpu-box:8080", "http://gpu-box:8080/v1"],
    [":8080", "http://127.0.0.1:8080/v1"],
    ["0.0.0.0", "http://127.0.0.1:11434/v1"],
    ["0.0.0.0:8080", "http://127.0.0.1:8080/v1"],
    ["[::]:8080", "http://[::1]:8080/v1"],
    ["[fe80::1]", "http://[fe80::1]:11434/v1"],
    ["http://gpu-box", "http://gpu-box/v1"],
    ["https://gpu-box:8443/ollama/", "https://gpu-box:8443/ollama/v1"],
    [" gpu-box ", "http://gpu-box:11434/v1"],
  ])("ollama takes OLLAMA_HOST=%s as Ollama does", async (host, url) => {
    using box = new Sandbox();
    const env = { ...KEYS, ...(host === undefined ? {} : { OLLAMA_HOST: host }) };
    const choice = await choose(box, "ollama", env, { userEnv: {} });
    expect(choice).toMatchObject({ device: "/dev/llm/openai-compatible", config: { base_url: url } });
    expect((await failure(() => choice.secret())).code, "it gets no key").toBe("UNAVAILABLE");
  });

  test.each([
    ["http://me:secret-word@127.0.0.1/v1", "a name and password"],
    ["http://secret-word@127.0.0.1/v1", "a name and password"],
    ["http://127.0.0.1/v1?key=secret-word", "a query"],
    ["http://127.0.0.1/v1#secret-word", "a query"],
  ])("an address from the environment with a secret in it is not used: %s", async (address, what) => {
    using box = new Sandbox();
    const error = await failure(() => choose(box, "openai", { ...KEYS, OPENAI_BASE_URL: address }));
    expect(error.code).toBe("UNAVAILABLE");
    expect(error.message).toContain(`OPENAI_BASE_URL: expected an address without ${what}`);
    expect(error.message).not.toContain("secret-word");
    box.write(USER, `providers: { openai: { base_url: "${address}" } }\n`);
    const written = await failure(() => choose(box, "openai", KEYS));
    expect(written.message).toContain(`base_url: expected an address without ${what}`);
    expect(written.message).not.toContain("secret-word");
  });

  test("openrouter has its address, its key and a model; a file changes of it what it says", async () => {
    using box = new Sandbox();
    const env = { ...KEYS, OPENROUTER_API_KEY: "sk-or", OPENAI_BASE_URL: "http://127.0.0.1:1/v1" };
    const choice = await choose(box, "openrouter", env, { flags: { provider: "openrouter" } });
    expect(choice).toMatchObject({
      device: "/dev/llm/openai-compatible",
      model: "openrouter/auto",
      config: { base_url: "https://openrouter.ai/api/v1" },
    });
    expect(await choice.secret()).toBe("sk-or");
    box.write(USER, "providers: { openrouter: { default_model: z/glm } }\n");
    const changed = await choose(box, "openrouter", env, { flags: { provider: "openrouter" } });
    expect(changed).toMatchObject({ model: "z/glm", config: choice.config });
  });

  test("that an entry gives another driver is that driver's provider", async () => {
    using box = new Sandbox();
    box.write(USER, "providers: { ollama: { driver: anthropic, api_key_env: ANTHROPIC_API_KEY } }\n");
    const choice = await choose(box, "ollama", { ...KEYS, OLLAMA_HOST: "gpu-box" });
    expect(choice).toMatchObject({ device: "/dev/llm/anthropic", config: { base_url: undefined } });
  });
});
