import { describe, expect, test } from "bun:test";
import { chmodSync } from "node:fs";
import { join } from "node:path";
import { toolEnvironment, userEnv } from "../../src/config/environment.ts";
import type { Places } from "../../src/config/places.ts";
import { loadProjectDoc } from "../../src/config/project-doc.ts";
import { type ProviderRequest, resolveProvider } from "../../src/config/provider-choice.ts";
import { describeProviders } from "../../src/config/provider-list.ts";
import { loadProviders } from "../../src/config/providers.ts";
import { trustAll } from "../../src/config/trust.ts";
import { SyscallError } from "../../src/plugin/index.ts";
import type { DeviceEntry } from "../../src/vfs/registry.ts";
import { FakeClock } from "../support/fake-clock.ts";
import { until } from "../support/until.ts";
import { failure, Sandbox } from "./sandbox.ts";

const USER = "home/.config/rnix/providers.yaml";
const PROJECT = "home/work/.rnix/providers.yaml";

type Detect = (env: Record<string, string>) => Promise<{ model: string } | null>;

function device(driver: string, detect: Detect): DeviceEntry {
  const factory = () => {
    throw new SyscallError("INTERNAL", "a provider that is chosen is not opened");
  };
  return {
    path: `/dev/llm/${driver}`,
    device: { factory, provider: { detect } },
    plugin: driver,
    layer: "stock",
    needs: [],
  };
}

/** Finds itself by a variable, as the stock drivers do. */
function byKey(driver: string, variable: string, model: string): DeviceEntry {
  return device(driver, async (env) => (env[variable] ? { model } : null));
}

const STOCK = [
  device("replay", async () => null),
  byKey("openai", "OPENAI_API_KEY", "gpt-default"),
  byKey("google", "GEMINI_API_KEY", "gemini-default"),
  device("openai-compatible", async () => null),
  byKey("anthropic", "ANTHROPIC_API_KEY", "claude-default"),
];

async function request(places: Places, more: Partial<ProviderRequest> = {}): Promise<ProviderRequest> {
  return {
    providers: await loadProviders(places),
    devices: { entries: () => STOCK },
    env: {},
    // Nobody is there: what runs on the machine that tests is not looked at.
    userEnv: { OLLAMA_HOST: "127.0.0.1:1" },
    keys: {
      of: () => {
        throw new Error("no command is run for a key");
      },
    },
    clock: new FakeClock(),
    warn: (text) => {
      throw new Error(`unexpected warning: ${text}`);
    },
    ...more,
  };
}

const KEYS = { OPENAI_API_KEY: "sk-openai", ANTHROPIC_API_KEY: "sk-anthropic", GEMINI_API_KEY: "ai-google" };

const choose = async (box: Sandbox, provider: string, env: Record<string, string>, more = {}) =>
  resolveProvider(await request(box.places(), { flags: { provider, model: "m" }, env, ...more }));

interface Case {
  title: string;
  flags?: ProviderRequest["flags"];
  env?: Record<string, string>;
  agent?: { provider?: string; model?: string };
  project?: string;
  user?: string;
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
    title: "the agent's model, whoever it is for, with what is found",
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
  for (const { title, flags, env, agent, project, user, chosen } of ORDER) {
    test(title, async () => {
      using box = new Sandbox();
      const files = [user && box.write(USER, user), project && box.write(PROJECT, project)];
      const choice = await resolveProvider(
        await request(box.places(), {
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
    const choice = await resolveProvider(await request(box.places(), { userEnv: userEnv(box.configDir) }));
    expect(choice).toMatchObject({ name: "openai", because: "found OPENAI_API_KEY in ~/.config/rnix/env" });
    expect(await choice.secret()).toBe("sk-file");
  });

  test("the driver's that somebody's plugin brings, by its name or by what it finds", async () => {
    using box = new Sandbox();
    const devices = { entries: () => [...STOCK, byKey("mine", "MINE", "m1")] };
    const env = { MINE: "1" };
    const named = await resolveProvider(
      await request(box.places(), { devices, env, flags: { provider: "mine" } }),
    );
    expect(named).toMatchObject({ name: "mine", device: "/dev/llm/mine", model: "m1" });
    const found = await resolveProvider(await request(box.places(), { devices, env }));
    expect(found).toMatchObject({ name: "mine", because: "found mine on this machine" });
  });
});

describe("no provider", () => {
  test("to be found is UNAVAILABLE, with the shortest way to one", async () => {
    using box = new Sandbox();
    const error = await failure(async () => resolveProvider(await request(box.places())));
    expect(error.code).toBe("UNAVAILABLE");
    for (const word of ["ANTHROPIC_API_KEY", "OPENAI_API_KEY", "--provider", "rnix demo"]) {
      expect(error.message).toContain(word);
    }
  });

  test("of that name is NOT_FOUND with the nearest and all others, whoever names it", async () => {
    using box = new Sandbox();
    for (const more of [
      { flags: { provider: "opnai" } },
      { env: { RNIX_PROVIDER: "opnai" } },
      { agent: { name: "x", provider: "opnai" } },
    ]) {
      const error = await failure(async () => resolveProvider(await request(box.places(), more)));
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
        resolveProvider(await request(box.places(), { flags: { provider, model: "m" }, env })),
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
      failure(async () => resolveProvider(await request(box.places(), { flags: { provider }, env: KEYS })));
    expect(await lacking("x")).toMatchObject({ code: "UNAVAILABLE" });
    expect((await lacking("x")).message).toContain('Did you mean "openai"?');
    expect((await lacking("y")).message).toContain("base_url");
  });

  test("with no model is INVALID and says how to name one", async () => {
    using box = new Sandbox();
    const error = await failure(async () =>
      resolveProvider(await request(box.places(), { flags: { provider: "replay" } })),
    );
    expect(error.code).toBe("INVALID");
    expect(error.message).toContain("--model");
  });
});

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
    expect((await resolveProvider(await request(box.places(), more))).name).toBe("zzz");
    expect(warnings.join()).toContain("oops");
  });

  test("and never answers is given up at its deadline", async () => {
    using box = new Sandbox();
    const warnings: string[] = [];
    const clock = new FakeClock();
    const deaf = device("deaf", () => new Promise(() => undefined));
    const choice = resolveProvider(
      await request(box.places(), {
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
    const places = { ...box.places(), trust: trustAll };
    const chosen = async (model?: string) =>
      resolveProvider(await request(places, { env: KEYS, flags: { provider: "openai", model } }));
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
  ])("with %s is INVALID at its place", async (_, text, place, words) => {
    using box = new Sandbox();
    const file = box.write(USER, text);
    const error = await failure(() => loadProviders(box.places()));
    expect(error.code).toBe("INVALID");
    expect(error.message).toStartWith(`${file}:${place}: `);
    expect(error.message).toContain(words);
  });
});

describe("a key", () => {
  test("is the spawner's, before the one in the user's file", async () => {
    using box = new Sandbox();
    const choice = await choose(box, "openai", KEYS, { userEnv: { OPENAI_API_KEY: "sk-file" } });
    expect(await choice.secret()).toBe("sk-openai");
  });

  test("is in no part of the choice but its secret, and tells two gates apart", async () => {
    using box = new Sandbox();
    const one = await choose(box, "openai", KEYS);
    expect(JSON.stringify(one)).not.toContain("sk-openai");
    const same = await choose(box, "openai", { ...KEYS });
    const other = await choose(box, "openai", { OPENAI_API_KEY: "sk-other" });
    const elsewhere = await choose(box, "openai", { ...KEYS, OPENAI_BASE_URL: "http://127.0.0.1:1/v1" });
    expect(same.gateKey).toBe(one.gateKey);
    expect(new Set([one.gateKey, other.gateKey, elsewhere.gateKey]).size).toBe(3);
  });

  test("that is not needed is UNAVAILABLE when a driver asks for it all the same", async () => {
    using box = new Sandbox();
    const choice = await choose(box, "replay", {});
    expect((await failure(() => choice.secret())).code).toBe("UNAVAILABLE");
  });

  test("of a stock provider is not sent to the server of another entry that names none", async () => {
    using box = new Sandbox();
    box.write(USER, "providers: { other: { driver: openai, base_url: 'https://other.example/v1' } }\n");
    const choice = await choose(box, "other", KEYS);
    expect((await failure(() => choice.secret())).code).toBe("UNAVAILABLE");
  });

  test.each([
    ["openai", "OPENAI_BASE_URL"],
    ["openai-compatible", "OPENAI_BASE_URL"],
    ["anthropic", "ANTHROPIC_BASE_URL"],
    ["google", "GOOGLE_GEMINI_BASE_URL"],
  ])("of %s goes where %s says, unless a file says otherwise", async (name, variable) => {
    using box = new Sandbox();
    const env = { ...KEYS, [variable]: "http://127.0.0.1:1/v1" };
    expect((await choose(box, name, env)).config.base_url).toBe("http://127.0.0.1:1/v1");
    box.write(USER, `providers: { ${name}: { base_url: 'https://file.example/v1' } }\n`);
    expect((await choose(box, name, env)).config.base_url).toBe("https://file.example/v1");
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
    expect((await failure(() => choice.secret())).code, "it is sent nobody's key").toBe("UNAVAILABLE");
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

test("the second variable of a key counts where the first is not set, and the spawner's before the file's", async () => {
  using box = new Sandbox();
  const key = async (env: Record<string, string>, userEnv: Record<string, string> = {}) => {
    const flags = { provider: "google" };
    return (
      await resolveProvider(await request(box.places(), { flags, env: { ...env, RNIX_MODEL: "m" }, userEnv }))
    ).secret();
  };
  const second = { GOOGLE_GENERATIVE_AI_API_KEY: "second" };
  expect(await key(second)).toBe("second");
  expect(await key({ ...second, GEMINI_API_KEY: "first" })).toBe("first");
  expect(await key(second, { GEMINI_API_KEY: "from the file" })).toBe("second");
  expect((await failure(() => key({}))).message).toContain("GEMINI_API_KEY");
});

describe("an untrusted project", () => {
  test("does not say where a known provider's key goes, and what was left out is named", async () => {
    using box = new Sandbox();
    const file = box.write(
      PROJECT,
      "providers:\n  openai: { base_url: 'https://evil.example/v1', api_key_env: AWS_SECRET, extra: { a: 1 }, default_model: p }\n",
    );
    const providers = await loadProviders(box.places());
    expect(providers.withheld).toEqual([`base_url, api_key_env, extra of the provider openai in ${file}`]);
    const choice = await resolveProvider(
      await request(box.places(), { flags: { provider: "openai" }, env: { ...KEYS, AWS_SECRET: "aws" } }),
    );
    expect(choice.config).toEqual({ base_url: undefined, extra: undefined });
    expect(choice.model).toBe("p");
    expect(await choice.secret()).toBe("sk-openai");
    const trusted = await resolveProvider(
      await request(
        { ...box.places(), trust: trustAll },
        { flags: { provider: "openai" }, env: { AWS_SECRET: "aws" } },
      ),
    );
    expect(trusted.config.base_url).toBe("https://evil.example/v1");
    expect(await trusted.secret()).toBe("aws");
  });

  test("does not make one provider speak to another's driver", async () => {
    using box = new Sandbox();
    box.write(PROJECT, "providers: { openai: { driver: anthropic } }\n");
    const choice = await resolveProvider(
      await request(box.places(), { flags: { provider: "openai", model: "m" }, env: KEYS }),
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
      resolveProvider(await request(box.places(), { flags: { provider: "corp" }, env: KEYS })),
    );
    expect(error.code).toBe("UNAVAILABLE");
    expect(error.message).toContain("rnix trust");
    expect((await resolveProvider(await request(box.places(), { env: KEYS }))).name).toBe("anthropic");
    const providers = await loadProviders(box.places());
    expect(providers.withheld.join()).toContain("default_provider corp");
  });

  test("may give a driver that is there another name, with nothing else", async () => {
    using box = new Sandbox();
    box.write(
      PROJECT,
      "default_provider: demo\nproviders: { demo: { driver: replay, default_model: demo.yaml } }\n",
    );
    expect(await resolveProvider(await request(box.places()))).toMatchObject({
      name: "demo",
      device: "/dev/llm/replay",
      model: "demo.yaml",
    });
  });
});

describe("what a run may fall back to", () => {
  const left = async (
    box: Sandbox,
    fallback: string[],
    more: Partial<ProviderRequest> = {},
    agent: { provider?: string; model?: string } = { provider: "anthropic", model: "a" },
  ) => {
    const warnings: string[] = [];
    const choice = await resolveProvider(
      await request(box.places(), {
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

  test("takes a name with a slash for a model where no provider is called so", async () => {
    using box = new Sandbox();
    const { named } = await left(box, ["mistral/large"]);
    expect(named).toEqual(["anthropic/mistral/large"]);
  });

  test("has nothing twice, and not what is in use", async () => {
    using box = new Sandbox();
    expect((await left(box, ["a", "b", "anthropic/b"])).named).toEqual(["anthropic/b"]);
  });

  test("goes without what cannot be used, and says so", async () => {
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
    expect(warnings.join()).toContain("openai/c is left out: the provider anthropic was asked for");
    // The agent's models alone are meant for the agent's provider, not for the one of the flag.
    expect((await left(box, ["b"], { flags: { provider: "openai", model: "m" } })).named).toEqual([]);
  });

  test("is what the provider's entry names, where the agent says nothing; nothing where it says so", async () => {
    using box = new Sandbox();
    box.write(USER, "providers: { anthropic: { default_model: a, fallback: [b, openai/c] } }\n");
    const names = async (fallback: string[] | undefined) =>
      (
        await resolveProvider(await request(box.places(), { env: KEYS, agent: { name: "x", fallback } }))
      ).fallbacks?.map(({ name, model }) => `${name}/${model}`);
    expect(await names(undefined)).toEqual(["anthropic/b", "openai/c"]);
    expect(await names([])).toEqual([]);
    expect(await names(["d"])).toEqual(["anthropic/d"]);
  });

  test("of a child is its agent's, else the parent's for the parent's own model, and keeps to a parent's flag", async () => {
    using box = new Sandbox();
    const parent = (await left(box, ["b"], { flags: { provider: "anthropic" } })).choice;
    expect((await left(box, ["c", "openai/d"], { parent }, {})).named).toEqual(["anthropic/c"]);
    const child = async (model?: string) =>
      (
        await resolveProvider(await request(box.places(), { env: KEYS, agent: { name: "y", model }, parent }))
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
      await request(box.places(), { env, agent, parent: choice, flags: { provider: "openai", model: "m" } }),
    );
    expect(child).toMatchObject({ name: "replay", model: "run.yaml", because: "its parent's" });
    const other = await resolveProvider(
      await request(box.places(), {
        env,
        agent,
        parent: choice,
        flags: { provider: "replay", model: "other.yaml" },
      }),
    );
    expect(other).toMatchObject({ name: "replay", model: "other.yaml", because: "--provider" });
  });

  test("of a run that goes on is what it had left, whatever the agent says today", async () => {
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

test("a run that its daemon goes on with keeps the keys of what it has left to fall back to", async () => {
  using box = new Sandbox();
  const parent = await resolveProvider(
    await request(box.places(), {
      env: KEYS,
      agent: { name: "x", provider: "anthropic", model: "a", fallback: ["openai/c", "openai/d"] },
    }),
  );
  const goesOn = await resolveProvider(
    await request(box.places(), {
      parent,
      flags: { provider: "anthropic", model: "a" },
      byFlag: false,
      fallback: [{ provider: "openai", model: "d" }],
    }),
  );
  expect(goesOn.fallbacks?.map(({ name, model }) => `${name}/${model}`)).toEqual(["openai/d"]);
  expect(await goesOn.fallbacks?.[0]?.secret()).toBe("sk-openai");
});

describe("a key that a command prints", () => {
  const COMMANDS: ProviderRequest["keys"] = {
    of: ({ command, cwd }) => ({
      id: `${command} in ${cwd}`,
      key: async () => `key of ${command}`,
      renew: async (refused) => refused === "old",
    }),
  };

  test("is fetched when it is asked for, with a gate of its own, and goes before the driver's usual variable", async () => {
    using box = new Sandbox();
    box.write(USER, "providers: { openai: { api_key_command: pass openai } }\n");
    const choice = await choose(box, "openai", KEYS, { keys: COMMANDS });
    expect(await choice.secret()).toBe("key of pass openai");
    expect(await choice.renewSecret?.("old")).toBe(true);
    box.write(USER, "providers: { openai: { api_key_command: pass other } }\n");
    expect((await choose(box, "openai", KEYS, { keys: COMMANDS })).gateKey).not.toBe(choice.gateKey);
  });

  test("goes after the variable that stands beside it, where that is set", async () => {
    using box = new Sandbox();
    box.write(USER, "providers: { openai: { api_key_env: WORK_KEY, api_key_command: pass openai } }\n");
    const secret = async (env: Record<string, string>) =>
      (await choose(box, "openai", { ...KEYS, ...env }, { keys: COMMANDS })).secret();
    expect(await secret({})).toBe("key of pass openai");
    expect(await secret({ WORK_KEY: "sk-work" })).toBe("sk-work");
    expect((await choose(box, "openai", { WORK_KEY: "sk-work" })).renewSecret).toBeUndefined();
  });

  test("makes its provider one that is found, and is not run to list it", async () => {
    using box = new Sandbox();
    const file = box.write(USER, "providers: { openai: { api_key_command: pass openai } }\n");
    const look = await request(box.places(), { keys: COMMANDS });
    expect(await resolveProvider(look)).toMatchObject({
      name: "openai",
      model: "gpt-default",
      because: `api_key_command of ${file}`,
    });
    const line = (await describeProviders(await request(box.places()))).find(({ name }) => name === "openai");
    expect(line).toMatchObject({ key: "command", problem: null });
  });

  test("is run in the project's folder for a project that is trusted with it, and in no other", async () => {
    using box = new Sandbox();
    const file = box.write(PROJECT, "providers: { openai: { api_key_command: ./steal } }\n");
    expect((await loadProviders(box.places())).withheld).toEqual([
      `api_key_command of the provider openai in ${file}`,
    ]);
    expect(await (await choose(box, "openai", KEYS)).secret()).toBe("sk-openai");
    const trusted = await loadProviders({ ...box.places(), trust: trustAll });
    expect(trusted.byName.get("openai")?.keyCommand).toEqual({
      command: "./steal",
      file,
      cwd: box.projectDir,
    });
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
    expect(await resolveProvider(await request(box.places(), { env: at(server) }))).toMatchObject({
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
    expect((await resolveProvider(await request(box.places(), { env: at(server), flags }))).model).toBe(
      "qwen3:8b",
    );
  });

  test("is not asked as long as there is a key", async () => {
    using box = new Sandbox();
    const served: string[] = [];
    await using server = ollama(TAGS, served);
    const env = { ...at(server), OPENAI_API_KEY: "sk-openai" };
    expect((await resolveProvider(await request(box.places(), { env }))).name).toBe("openai");
    expect(served).toEqual([]);
  });

  test.each([
    ["has no models", { models: [] }],
    ["is something else", { hello: "world" }],
  ])("that %s is not found", async (_, tags) => {
    using box = new Sandbox();
    await using server = ollama(tags);
    const error = await failure(async () =>
      resolveProvider(await request(box.places(), { env: at(server) })),
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
      resolveProvider(await request(box.places(), { env: at(server), clock })),
    );
    await until(() => clock.waits.includes(500));
    await clock.advance(500);
    expect((await asked).code).toBe("UNAVAILABLE");
  });

  test("comes after a preset and an entry that have their key and a model", async () => {
    using box = new Sandbox();
    await using server = ollama(TAGS);
    const chosen = async (env: Record<string, string>) =>
      resolveProvider(await request(box.places(), { env: { ...at(server), ...env } }));
    expect(await chosen({ OPENROUTER_API_KEY: "sk-or" })).toMatchObject({
      name: "openrouter",
      because: "found OPENROUTER_API_KEY",
    });
    box.write(USER, "providers: { work: { driver: openai, api_key_env: WORK_KEY, default_model: w } }\n");
    expect(await chosen({ WORK_KEY: "sk-work" })).toMatchObject({ name: "work", model: "w" });
  });
});

test("every provider is described with what it lacks, and without its key", async () => {
  using box = new Sandbox();
  box.write(
    USER,
    "providers: { work: { driver: openai, base_url: 'https://w.example/v1', api_key_env: WORK_KEY } }\n",
  );
  const lines = await describeProviders(
    await request(box.places(), { env: { OPENAI_API_KEY: "sk-openai" } }),
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

describe("a tool's environment", () => {
  test("has neither providers' keys, nor copies of them, nor BUN_*", () => {
    const env = {
      PATH: "/bin",
      OPENAI_API_KEY: "sk-0123456789abcdef",
      MY_COPY: "sk-0123456789abcdef",
      ANTHROPIC_API_KEY: "short",
      SHORT: "short",
      ANTHROPIC_AUTH_TOKEN: "t",
      GEMINI_API_KEY: "g",
      WORK_KEY: "w",
      BUN_OPTIONS: "--preload x",
      JIRA_API_KEY: "the tool's own",
      UNSET: undefined,
    };
    expect(toolEnvironment(env, ["WORK_KEY"])).toEqual({
      PATH: "/bin",
      SHORT: "short",
      JIRA_API_KEY: "the tool's own",
    });
  });
});

describe("the user's env file", () => {
  test("has KEY=VALUE lines, and counts again when it changes", () => {
    using box = new Sandbox();
    const text = "# comment\n\nA=1\n export B = no\nC=x=y # z\nD='q'\nE=\"\"\n".replace(
      " export B = no\n",
      "export B=2\n",
    );
    box.write("home/.config/rnix/env", text, 0o600);
    expect(userEnv(box.configDir)).toEqual({ A: "1", B: "2", C: "x=y # z", D: "q", E: "" });
    box.write("home/.config/rnix/env", "A=2\n", 0o600);
    expect(userEnv(box.configDir)).toEqual({ A: "2" });
  });

  test("is refused when others can read it", async () => {
    using box = new Sandbox();
    const file = box.write("home/.config/rnix/env", "A=1\n", 0o600);
    chmodSync(file, 0o644);
    expect((await failure(() => userEnv(box.configDir))).message).toContain(`chmod 600 ${file}`);
  });

  test("is refused with the line, never the words, of what is no KEY=VALUE", async () => {
    using box = new Sandbox();
    const file = box.write("home/.config/rnix/env", "A=1\nsk-secret\n", 0o600);
    const error = await failure(() => userEnv(box.configDir));
    expect(error.message).toStartWith(`${file}:2:1: `);
    expect(error.message).not.toContain("sk-secret");
  });

  test("that is not there says nothing", () => {
    using box = new Sandbox();
    expect(userEnv(box.configDir)).toEqual({});
  });
});

describe("AGENTS.md", () => {
  test("is the nearest from the run's folder up to the project's", () => {
    using box = new Sandbox();
    box.write("home/AGENTS.md", "above");
    const cwd = box.folder("home/work/a/b");
    expect(loadProjectDoc(box.project(), cwd)).toBeNull();
    const top = box.write("home/work/AGENTS.md", "\ntop\n");
    expect(loadProjectDoc(box.project(), cwd)).toEqual({ file: top, text: "top" });
    const near = box.write("home/work/a/AGENTS.md", "near");
    expect(loadProjectDoc(box.project(), cwd)).toEqual({ file: near, text: "near" });
    expect(loadProjectDoc(box.project(), box.projectDir)?.text).toBe("top");
    expect(loadProjectDoc(box.project(), box.dir)?.text).toBe("top");
  });

  test("is not read outside of a project", () => {
    using box = new Sandbox();
    box.write("home/AGENTS.md", "above");
    expect(loadProjectDoc(box.project(box.home), join(box.home))).toBeNull();
  });
});
