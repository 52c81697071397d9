import { describe, expect, test } from "bun:test";
import { existsSync, statSync } from "node:fs";
import { join } from "node:path";
import { ModelServer } from "../support/model-server/server.ts";
import { binary } from "./support/binary.ts";
import { Machine } from "./support/machine.ts";
import type { AtTerminal } from "./support/running.ts";
import { bash, says } from "./support/scenes.ts";

const KEY = "sk-a-key-of-the-user-1234";
const OK = { turns: [{ text: "OK", usage: { input_tokens: 20, output_tokens: 1 } }], loop: true };

/** What the machine's model sets, taken away: a new user has no key. */
const NEW_USER = {
  OPENAI_API_KEY: undefined,
  OPENAI_BASE_URL: undefined,
  ANTHROPIC_API_KEY: undefined,
  GEMINI_API_KEY: undefined,
  RNIX_PROVIDER: undefined,
  RNIX_MODEL: undefined,
};

/** Answers each question as it appears: its last words, and what is typed. */
async function answer(terminal: AtTerminal, ...answers: (readonly [RegExp, string])[]): Promise<void> {
  let from = 0;
  for (const [question, text] of answers) {
    await terminal.shows(new RegExp(`^[\\s\\S]{${from}}[\\s\\S]*?${question.source}`));
    from = terminal.screen.length;
    terminal.type(`${text}\r`);
  }
}

const WHICH = /Which provider[\s\S]*Number or name \[1\]: $/;
const HOW = /How does Rnix get[\s\S]*Number or name \[1\]: $/;
/** What was typed is none of the choices: it may be a key. */
const NEITHER = /a name of the list. Nothing else is shown\.\s+Number or name \[1\]: $/;
const SECRET = /not shown; empty: back\): $/;
const MODEL = /Model \(number[\s\S]*: $/;
const NOW = /What now\?[\s\S]*Number or name \[1\]: $/;

const env = (machine: Machine) => machine.read(join(machine.configDir, "env"));
const providers = (machine: Machine) => machine.read(join(machine.configDir, "providers.yaml"));
const isUnchanged = (machine: Machine) =>
  !existsSync(join(machine.configDir, "env")) && !existsSync(join(machine.configDir, "providers.yaml"));

describe("rnix setup at a terminal", () => {
  test.each([
    ["anthropic", "ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL", (server: ModelServer) => server.url],
    ["openai", "OPENAI_API_KEY", "OPENAI_BASE_URL", (server: ModelServer) => server.openaiUrl],
  ] as const)(
    "%s: key, model, one word, written, and a run works",
    async (name, variable, address, urlOf) => {
      await using machine = new Machine();
      await using server = await ModelServer.start({ ...OK, key: KEY, models: ["one", "two"] });
      machine.write(
        join(machine.configDir, "providers.yaml"),
        "# mine\nproviders:\n  # at work\n  work: { driver: openai-compatible, base_url: http://127.0.0.1:1/v1 }\n",
      );
      const user = { [address]: urlOf(server) };
      const terminal = machine.startAtTerminal(["setup"], { env: user });
      await answer(terminal, [WHICH, name], [HOW, KEY], [NEITHER, "enter"], [SECRET, KEY], [MODEL, "two"]);
      const { code, screen } = await terminal.done;
      expect(code).toBe(0);
      expect(screen).toContain(`${KEY.length} characters`);
      expect(screen).toMatch(/It answered "OK" after .*: 21 tokens, cost not known/);
      expect(screen).not.toContain(KEY);
      expect(env(machine)).toBe(`${variable}=${KEY}\n`);
      expect(statSync(join(machine.configDir, "env")).mode & 0o777).toBe(0o600);
      expect(providers(machine)).toBe(
        `# mine\nproviders:\n  # at work\n  work: { driver: openai-compatible, base_url: http://127.0.0.1:1/v1 }\n  ${name}:\n    default_model: two\ndefault_provider: ${name}\n`,
      );
      const run = await machine.run(["say OK"], { env: user });
      expect(run).toMatchObject({ code: 0, stdout: "OK\n" });
      expect(server.requests.map(({ model }) => model)).toEqual(["two", "two"]);
      expect(machine.search(KEY)).toEqual(["config/rnix/env"]);
    },
  );

  test("breaks lines between words in a narrow terminal", async () => {
    await using machine = new Machine();
    const words = async (columns: number): Promise<string[]> => {
      await using session = machine.terminal(["setup"], { columns, rows: 60, env: NEW_USER });
      return (await session.until(/Number or name/)).split(/\s+/);
    };
    expect(await words(40)).toEqual(await words(200));
  });

  test("another server: its address, a name, a key of its own variable", async () => {
    await using machine = new Machine();
    await using server = await ModelServer.start({ ...OK, key: KEY, models: ["only"] });
    const terminal = machine.startAtTerminal(["setup"]);
    await answer(
      terminal,
      [WHICH, "other"],
      [/Its address[\s\S]*: $/, "llm.example.com"],
      [/begins with http[\s\S]*Its address[\s\S]*: $/, server.openaiUrl],
      [/A name for it \[local-\d+\]: $/, "my-server"],
      [HOW, "enter"],
      [SECRET, KEY],
      [MODEL, ""],
    );
    expect((await terminal.done).code).toBe(0);
    expect(env(machine)).toBe(`MY_SERVER_API_KEY=${KEY}\n`);
    expect(Bun.YAML.parse(providers(machine))).toEqual({
      default_provider: "my-server",
      providers: {
        "my-server": {
          driver: "openai-compatible",
          base_url: server.openaiUrl,
          api_key_env: "MY_SERVER_API_KEY",
          default_model: "only",
        },
      },
    });
    expect(await machine.run(["say OK"])).toMatchObject({ code: 0, stdout: "OK\n" });
  });

  test("an address without /v1 is completed where the list of models is", async () => {
    await using machine = new Machine();
    await using server = await ModelServer.start({ ...OK, models: ["one"] });
    const terminal = machine.startAtTerminal(["setup"], { env: NEW_USER });
    const typed = [WHICH, "other"] as const;
    await answer(terminal, typed, [/empty: back\): $/, server.url], [/name for it \[[^\]]*\]: $/, "mine"]);
    await answer(terminal, [HOW, "none"], [MODEL, "one"]);
    const { code, screen } = await terminal.done;
    expect(screen).toContain(`Its address is ${server.url}/v1`);
    expect(code).toBe(0);
    expect(providers(machine)).toContain(`base_url: ${server.url}/v1\n`);
  });

  test("a server without a list: the model is named, and the word that is sent shows it", async () => {
    await using machine = new Machine();
    await using server = await ModelServer.start({ ...OK, models: ["mine"] });
    await using front = Bun.serve({
      port: 0,
      hostname: "127.0.0.1",
      async fetch(request) {
        const { pathname } = new URL(request.url);
        if (pathname.endsWith("/models")) return new Response("no such path", { status: 404 });
        const { method, headers } = request;
        return fetch(`${server.url}${pathname}`, { method, headers, body: await request.text() });
      },
    });
    const terminal = machine.startAtTerminal(["setup"]);
    await answer(
      terminal,
      [WHICH, "other"],
      [/Its address[\s\S]*: $/, `http://127.0.0.1:${front.port}/v1`],
      [/A name for it[\s\S]*: $/, "plain"],
      [HOW, "none"],
      [/has no list of models[\s\S]*Model \(number[\s\S]*: $/, "yours"],
      [/does not exist[\s\S]*What now[\s\S]*: $/, "model"],
      [MODEL, "mine"],
    );
    expect((await terminal.done).code).toBe(0);
    expect(Bun.YAML.parse(providers(machine))).toMatchObject({
      providers: { plain: { default_model: "mine" } },
    });
    expect(existsSync(join(machine.configDir, "env"))).toBe(false);
  });

  test("a refused key: says so, takes another; a missing model: another; a command as key", async () => {
    await using machine = new Machine();
    await using server = await ModelServer.start({ ...OK, key: KEY, models: ["there"] });
    const file = machine.write("key.txt", `${KEY}\n`);
    const terminal = machine.startAtTerminal(["setup"], { env: { ANTHROPIC_BASE_URL: server.url } });
    await answer(
      terminal,
      [WHICH, "anthropic"],
      [HOW, "enter"],
      [SECRET, "sk-wrong-key"],
      [/answered 401: Incorrect API key[\s\S]*What now[\s\S]*key +enter another key[\s\S]*: $/, "key"],
      [HOW, "command"],
      [/The command[\s\S]*: $/, `cat ${file}`],
      [MODEL, "absent"],
      [/The list has no absent[\s\S]*: $/, "use"],
      [/does not exist[\s\S]*What now[\s\S]*: $/, "model"],
      [MODEL, "there"],
    );
    expect((await terminal.done).code).toBe(0);
    expect(existsSync(join(machine.configDir, "env"))).toBe(false);
    expect(Bun.YAML.parse(providers(machine))).toEqual({
      default_provider: "anthropic",
      providers: { anthropic: { api_key_command: `cat ${file}`, default_model: "there" } },
    });
    const run = await machine.run(["say OK"], { env: { ANTHROPIC_BASE_URL: server.url } });
    expect(run).toMatchObject({ code: 0, stdout: "OK\n" });
  });

  test("without a network: says what to do, goes back to another provider, or is kept for later", async () => {
    await using machine = new Machine();
    const off = { ANTHROPIC_BASE_URL: "http://127.0.0.1:1", OPENAI_BASE_URL: "http://127.0.0.1:1/v1" };
    const terminal = machine.startAtTerminal(["setup"], { env: off });
    await answer(
      terminal,
      [WHICH, "anthropic"],
      [HOW, "enter"],
      [SECRET, KEY],
      [/cannot reach the model server[\s\S]*What now[\s\S]*: $/, "provider"],
      [WHICH, "openai"],
      [HOW, "0"],
      [WHICH, "anthropic"],
      [HOW, "enter"],
      [SECRET, KEY],
      [NOW, "known"],
      [MODEL, "claude-opus-5"],
      [/The list has no claude-opus-5[\s\S]*: $/, "use"],
      [NOW, "save"],
    );
    expect((await terminal.done).code).toBe(0);
    expect(providers(machine)).toContain("default_model: claude-opus-5\n");
    expect(env(machine)).toContain(KEY);
  });

  test.each([
    ["at the first question", []],
    ["while the key is typed", [[WHICH, "anthropic"] as const, [HOW, "enter"] as const]],
    ["at the model", [[WHICH, "anthropic"] as const, [HOW, "enter"] as const, [SECRET, KEY] as const]],
  ])("Ctrl-C %s leaves everything as it was", async (_when, answers) => {
    await using machine = new Machine();
    await using server = await ModelServer.start({ ...OK, key: KEY, models: ["m"] });
    const terminal = machine.startAtTerminal(["setup"], { env: { ANTHROPIC_BASE_URL: server.url } });
    await answer(terminal, ...answers);
    const from = terminal.screen.length;
    await terminal.shows(new RegExp(`^[\\s\\S]{${from}}[\\s\\S]*: $`));
    terminal.type("\x03");
    const { code, screen } = await terminal.done;
    expect(code).toBe(130);
    expect(screen).toContain("nothing was changed");
    expect(isUnchanged(machine)).toBe(true);
  });
});

test("without a terminal flags say it all; without them the error names them", async () => {
  await using machine = new Machine();
  await using server = await ModelServer.start({ ...OK, key: KEY, models: ["m"] });
  const bare = await machine.run(["setup"]);
  expect(bare.code).toBe(64);
  expect(bare.stderr).toContain("--key-from-env NAME");
  const user = { ANTHROPIC_BASE_URL: server.url, CI_KEY: KEY };
  const flags = ["--provider", "anthropic", "--key-from-env", "CI_KEY"];
  const wrong = await machine.run(["setup", ...flags, "--model", "m"], {
    env: { ...user, CI_KEY: "sk-wrong" },
  });
  expect(wrong).toMatchObject({ code: 1, stderr: expect.stringContaining("401") });
  const unset = await machine.run(["setup", ...flags, "--model", "m"]);
  expect(unset).toMatchObject({ code: 64, stderr: expect.stringContaining("CI_KEY is not set") });
  expect(isUnchanged(machine)).toBe(true);

  const done = await machine.run(["setup", ...flags, "--model", "m"], { env: user });
  expect(done.code).toBe(0);
  expect(env(machine)).toBe(`ANTHROPIC_API_KEY=${KEY}\n`);
  // Another key of the shell counts first: that is said.
  const other = { ...user, ANTHROPIC_API_KEY: "sk-the-old-one" };
  const noted = await machine.run(["setup", ...flags, "--model", "m"], { env: other });
  expect(noted.stderr).toContain("unset ANTHROPIC_API_KEY");
  const own = ["--base-url", server.openaiUrl, "--key-command", `echo ${KEY}`, "--model", "m"];
  await machine.ok(["setup", "--provider", "work", ...own]);
  expect(await machine.run(["say OK"])).toMatchObject({ code: 0, stdout: "OK\n" });
});

test("a run without a provider offers the setup at a terminal, and then begins", async () => {
  await using machine = new Machine();
  await using server = await ModelServer.start({ ...OK, key: KEY, models: ["m"] });
  const user = { ...NEW_USER, ANTHROPIC_BASE_URL: server.url };
  const terminal = machine.startAtTerminal(["say OK"], { env: user });
  await answer(
    terminal,
    [/Set one up now\? \[yes\]: $/, ""],
    [WHICH, "anthropic"],
    [HOW, "enter"],
    [SECRET, KEY],
    [MODEL, ""],
  );
  const { code, screen } = await terminal.done;
  expect(code).toBe(0);
  expect(screen).toMatch(/completed\W+1 step/);

  await using other = new Machine();
  const refused = other.startAtTerminal(["say OK"], { env: NEW_USER });
  await answer(refused, [/Set one up now\? \[yes\]: $/, "no"]);
  expect(await refused.done).toMatchObject({
    code: 69,
    screen: expect.stringContaining("No model provider found"),
  });
  // Nothing is asked where no user is.
  expect(await other.run(["say OK"])).toMatchObject({ code: 69 });
  const ci = other.startAtTerminal(["say OK"], { env: { ...NEW_USER, CI: "1" } });
  expect((await ci.done).code).toBe(69);
});

test("a conversation without a provider offers it too, and opens afterwards", async () => {
  await using machine = new Machine();
  const terminal = machine.startAtTerminal([], { env: NEW_USER });
  await answer(terminal, [/Set one up now\? \[yes\]: $/, "no"]);
  const from = terminal.screen.length;
  await terminal.shows(new RegExp(`^[\\s\\S]{${from}}[\\s\\S]*for commands`));
  terminal.type("\x04");
  expect((await terminal.done).code).toBe(0);
});

test("inside a run the setup is refused", async () => {
  await using machine = new Machine();
  const script = '"$RNIX_TESTED" setup --provider openai --model m';
  await machine.model([bash(script), says("Done.")]);
  const run = await machine.run(["spawn", "try", "--env", `RNIX_TESTED=${binary()}`]);
  expect(run.stderr).toContain("rnix setup is for a person");
  expect(isUnchanged(machine)).toBe(true);
});
