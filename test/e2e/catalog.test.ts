import { expect, test } from "bun:test";
import { join } from "node:path";
import { z } from "zod";
import { Machine } from "./support/machine.ts";
import { says } from "./support/scenes.ts";

const Named = z.array(z.looseObject({ name: z.string() }));

test("the lists show agents, tools and providers with their source: stock, user or project", async () => {
  await using machine = await Machine.playing({ "": [says("OK")] });
  machine.agent("mine", "name: mine\ndescription: Mine\nallowed_tools: [Read]\n", "Do.\n");
  machine.write("agents/broken/agent.yaml", "name: broken\n");
  machine.write(".agents/skills/own/SKILL.md", "---\nname: own\ndescription: Own\n---\nDo.\n");

  const agents = await machine.run(["agents", "--json"]);
  expect(names(agents.stdout)).toEqual(["code-analyst", "coder", "default", "dream", "mine"]);
  expect(agents.stderr).toContain("agents/broken");
  expect(names((await machine.run(["skills", "--json"])).stdout)).toEqual([
    "code-analysis",
    "own",
    "testing",
  ]);
  expect(names((await machine.run(["plugins", "--json"])).stdout)).toEqual(
    expect.arrayContaining(["anthropic", "fs", "openai", "replay", "shell"]),
  );

  const tools = Tools.parse(await machine.json(["tools", "--agent", "mine", "--json"]));
  const allowed = tools.filter((tool) => tool.allowed).map(({ name }) => name);
  expect(allowed).toEqual(["Read"]);
  const ofDefault = await machine.run(["tools", "--agent", "default", "--json"]);
  const later = Tools.parse(JSON.parse(ofDefault.stdout)).filter(({ shown }) => shown !== "start");
  expect(later.filter(({ allowed }) => allowed).map(({ name }) => name)).toEqual(
    expect.arrayContaining(["AskUser", "ReadMessages", "SendMessage", "Wake"]),
  );

  const providers = await machine.run(["providers", "--probe", "--json"]);
  expect(JSON.parse(providers.stdout)).toEqual(
    expect.arrayContaining([
      expect.objectContaining({
        name: "anthropic",
        usable: true,
        probe: expect.objectContaining({ ok: true }),
      }),
      expect.objectContaining({ name: "openai", chosen: true, probe: expect.objectContaining({ ok: true }) }),
    ]),
  );
  expect(providers.stdout).not.toContain("sk-scripted");
});

test("the commands that set up a project do what they print, and rnix doctor finds nothing wrong", async () => {
  await using machine = await Machine.playing({ "": [says("OK")] });
  const made = await machine.run(["init"]);
  expect(made.code).toBe(0);
  for (const file of [".rnix/config.yaml", ".rnix/tsconfig.json"]) expect(machine.has(file)).toBe(true);
  machine.write(".rnix/config.yaml", "max_steps: 7\n");
  const config = Settings.parse(await machine.json(["config", "--json"]));
  expect(config.find(({ key }) => key === "max_steps")).toMatchObject({
    value: "7",
    source: expect.stringContaining(".rnix/config.yaml:1:1"),
  });
  await machine.ok(["init"]);
  expect(machine.read(".rnix/config.yaml")).toBe("max_steps: 7\n");

  const doctor = await machine.run(["doctor", "--json"]);
  expect(doctor.code).toBe(0);
  expect(JSON.parse(doctor.stdout)).toMatchObject({ ok: true });
});

test("a default provider that does not exist is named, also by rnix doctor, and a broken file once", async () => {
  await using machine = await Machine.playing({ "": [says("OK")] });
  machine.write(".rnix/agents/mine/agent.yaml", "name: mine\ndescription: Mine\nwhat: it is\n");
  const why = 'There is no provider "opnai". Did you mean "openai"?';
  const env = { RNIX_PROVIDER: "opnai" };
  expect((await machine.run(["providers"], { env })).stderr).toStartWith(`note: ${why}`);
  expect((await machine.run(["doctor"], { env })).stdout).toContain(`providers: ${why}`);
  const file = join(machine.project, ".rnix/agents/mine/agent.yaml");
  expect((await machine.run(["agents"])).stderr).toStartWith(`not loaded: ${file}:3:1: unknown key`);
});

test("version, help and completions leave nothing behind", async () => {
  await using machine = new Machine();
  const version = await machine.json(["version", "--json"]);
  expect(version).toEqual({ version: expect.stringMatching(/^\d+\.\d+\.\d+/), build: expect.any(String) });
  expect((await machine.run(["--help"])).stdout).toContain("spawn");
  for (const shell of ["bash", "zsh", "fish"]) {
    expect((await machine.run(["completions", shell])).stdout).toContain("rnix");
  }
  expect(machine.leftovers()).toEqual([]);
});

const Tools = z.array(
  z.looseObject({ name: z.string(), allowed: z.boolean(), shown: z.string().nullable() }),
);
const Settings = z.array(z.looseObject({ key: z.string(), value: z.string(), source: z.string() }));

function names(json: string): string[] {
  return Named.parse(JSON.parse(json)).map(({ name }) => name);
}
