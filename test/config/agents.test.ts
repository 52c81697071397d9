import { describe, expect, test } from "bun:test";
import { rmSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import { loadAgent, loadAgents, requireChecks } from "../../src/config/agents/agents.ts";
import { trustAll } from "../../src/config/trust/trust.ts";
import { failure, Sandbox } from "./sandbox.ts";

const ROOTS = ["home/work/agents", "home/work/.rnix/agents", "home/.config/rnix/agents"];

function agent(box: Sandbox, root: string, name: string, more = "", instructions = "Do it.\n"): string {
  const file = box.write(`${root}/${name}/agent.yaml`, `name: ${name}\ndescription: from ${root}\n${more}`);
  box.write(`${root}/${name}/instructions.md`, instructions);
  return file;
}

function embed(box: Sandbox, name: string, more = ""): void {
  box.agents.push({ path: `${name}/agent.yaml`, text: `name: ${name}\ndescription: embedded\n${more}` });
  box.agents.push({ path: `${name}/instructions.md`, text: "Embedded.\n" });
}

describe("an agent", () => {
  test("has what its two files say", async () => {
    using box = new Sandbox();
    box.write("home/work/skills/one/SKILL.md", "---\nname: one\ndescription: d\n---\nOne.\n");
    box.write("home/work/skills/two/SKILL.md", "---\nname: two\ndescription: e\n---\nTwo.\n");
    const more = `models: { provider: anthropic, preferred: m }
skills: [one]
deferred_skills: [two]
allowed_tools: [Read, "Bash(git *)"]
max_steps: 50
context_budget: unlimited
max_cost: 1.50
timeout: 30m
sandbox: auto
checks: ["npm test"]
`;
    const source = agent(box, ROOTS[0] ?? "", "full", more, "\n  Do all of it.\n\n");
    const loaded = await loadAgent("full", { ...box.sources(), trust: trustAll });
    expect(loaded).toMatchObject({
      name: "full",
      instructions: "Do all of it.",
      allowedTools: ["Read", "Bash(git *)"],
      max_steps: 50,
      context_budget: null,
      max_cost: 1.5,
      timeout_ms: 1_800_000,
      checks: ["npm test"],
      source,
      tier: "project",
      provider: "anthropic",
      model: "m",
      sandbox: "auto",
      mcpAll: false,
      untrusted: [],
      notices: [],
    });
    expect(loaded.skills.map(({ name }) => name)).toEqual(["one"]);
    expect(loaded.deferredSkills.map(({ name }) => name)).toEqual(["two"]);
    expect(await loaded.deferredSkills[0]?.body()).toBe("Two.");
  });

  test.each([
    ["absent: all", "", ["*"]],
    ["a star alone: all", 'allowed_tools: "*"\n', ["*"]],
    ["a star in the list: kept", 'allowed_tools: ["*", Read]\n', ["*", "Read"]],
    ["an empty list: none", "allowed_tools: []\n", []],
  ])("with allowed_tools %s", async (_, more, tools) => {
    using box = new Sandbox();
    agent(box, ROOTS[0] ?? "", "a", more);
    expect((await loadAgent("a", box.trusted())).allowedTools).toEqual(tools);
  });

  test("that says nothing leaves its limits to the settings", async () => {
    using box = new Sandbox();
    agent(box, ROOTS[0] ?? "", "a");
    const { max_steps, context_budget, timeout_ms, checks } = await loadAgent("a", box.sources());
    expect({ max_steps, context_budget, timeout_ms, checks }).toEqual({
      max_steps: undefined,
      context_budget: undefined,
      timeout_ms: undefined,
      checks: [],
    });
  });

  test("is the nearest of its name: project, its .rnix, the user, embedded", async () => {
    using box = new Sandbox();
    embed(box, "a");
    for (const root of ROOTS) agent(box, root, "a");
    for (const root of ROOTS) {
      expect((await loadAgent("a", box.trusted())).description).toBe(`from ${root}`);
      rmSync(join(box.dir, root), { recursive: true });
    }
    expect(await loadAgent("a", box.sources())).toMatchObject({
      source: "embedded",
      instructions: "Embedded.",
    });
  });

  test("of HOME's folders is not the project's", async () => {
    using box = new Sandbox();
    agent(box, "home/agents", "a");
    expect((await failure(() => loadAgent("a", box.sources(box.project(box.home))))).code).toBe("NOT_FOUND");
  });

  test("changes as soon as one of its files does", async () => {
    using box = new Sandbox();
    agent(box, ROOTS[0] ?? "", "a");
    await loadAgent("a", box.sources());
    box.write(`${ROOTS[0]}/a/instructions.md`, "Do something else.");
    expect((await loadAgent("a", box.sources())).instructions).toBe("Do something else.");
  });
});

describe("a name that no agent has", () => {
  test("is NOT_FOUND with the nearest and all others", async () => {
    using box = new Sandbox();
    embed(box, "coder");
    agent(box, ROOTS[2] ?? "", "default");
    const error = await failure(() => loadAgent("defualt", box.sources()));
    expect(error.code).toBe("NOT_FOUND");
    expect(error.message).toBe(
      'There is no agent "defualt". Did you mean "default"? There are: coder, default.',
    );
  });

  test.each(["", ".", "..", "../work", "a/b", "a\\b"])('"%s" never leaves the folders', async (name) => {
    using box = new Sandbox();
    agent(box, "home/work", "agents");
    expect((await failure(() => loadAgent(name, box.sources()))).code).toBe("NOT_FOUND");
  });
});

describe("a mistake in an agent's files is INVALID and names its position", () => {
  test.each([
    ["an unknown key", "max_stps: 5\n", "3:1", 'did you mean "max_steps"?'],
    ["an unknown key further in", "models:\n  provder: x\n", "4:3", 'did you mean "provider"?'],
    ["a key of a later version", "supervise: x\n", "3:1", "does not work in this version"],
    ["a number for hosts", "network: 5\n", "3:10", "expected a list of texts"],
    ["a server without a name", "mcp: [{ required: false }]\n", "3:7", "expected a server's name"],
    ["one model for a list of them", "models: { fallback: gpt }\n", "3:21", "a list of models"],
    ["a provider without a model", "models: { fallback: [openai/] }\n", "3:22", "or provider/model"],
    ["an unknown effort", "models: { effort: hihg }\n", "3:19", 'did you mean "high"?'],
    ["zero steps", "max_steps: 0\n", "3:12", "unlimited"],
    ["no unit", "timeout: 30\n", "3:10", "30s"],
    ["a text for a list", "allowed_tools: Read\n", "3:16", 'or "*" for all'],
    ["a number in a list", "checks: [npm test, 5]\n", "3:20", "got 5"],
    ["an unknown sandbox", "sandbox: require\n", "3:10", 'did you mean "required"?'],
    ["an unknown skill", "skills: [tsting]\n", "3:10", 'Did you mean "testing"?'],
    ["an unknown deferred skill", "deferred_skills:\n  - testing\n  - nope\n", "5:5", 'no skill "nope"'],
  ])("%s", async (_, more, position, words) => {
    using box = new Sandbox();
    box.skills.push({ path: "testing/SKILL.md", text: "---\nname: testing\ndescription: d\n---\nTest.\n" });
    const file = agent(box, ROOTS[0] ?? "", "a", more);
    const error = await failure(() => loadAgent("a", box.sources()));
    expect(error.code).toBe("INVALID");
    expect(error.message).toStartWith(`${file}:${position}: `);
    expect(error.message).toContain(words);
  });

  test.each([
    ["skill", "deferred_skills:\n  - '*'\n  - missing\n"],
    ["server", "mcp:\n  - '*'\n  - missing\n"],
  ])("a %s after the one that stands for all", async (_, more) => {
    using box = new Sandbox();
    const file = agent(box, ROOTS[2] ?? "", "a", more);
    const { message } = await failure(async () => {
      const { mcp } = await loadAgent("a", box.sources());
      throw mcp[0]?.wrong("there is no such server");
    });
    expect(message).toStartWith(`${file}:5:5: `);
  });

  test("a name that is not the folder's", async () => {
    using box = new Sandbox();
    const file = box.write("home/work/agents/a/agent.yaml", "description: d\nname: b\n");
    const error = await failure(() => loadAgent("a", box.sources()));
    expect(error.message).toBe(`${file}:2:7: expected the folder's name "a", got "b"`);
  });

  test("a missing name, at the position where it would be", async () => {
    using box = new Sandbox();
    const file = box.write("home/work/agents/a/agent.yaml", "# mine\nnam: a\ndescription: d\n");
    const { message } = await failure(() => loadAgent("a", box.sources()));
    expect(message).toContain(`${file}:2:1: name: expected the agent's name, got nothing`);
    expect(message).toContain(`${file}:2:1: unknown key "nam"; did you mean "name"?`);
  });

  test("instructions that are missing or empty", async () => {
    using box = new Sandbox();
    const file = agent(box, ROOTS[0] ?? "", "a", "", "  \n");
    expect((await failure(() => loadAgent("a", box.sources()))).message).toContain("instructions.md");
    rmSync(file.replace("agent.yaml", "instructions.md"));
    expect((await failure(() => loadAgent("a", box.sources()))).message).toContain("found none");
  });

  test("a project's instructions that are a link to a file of the user's", async () => {
    using box = new Sandbox();
    const file = agent(box, ROOTS[0] ?? "", "a").replace("agent.yaml", "instructions.md");
    rmSync(file);
    symlinkSync(box.write("home/.ssh/id", "private"), file);
    const error = await failure(() => loadAgent("a", box.sources()));
    expect(error.message).toContain("inside the project");
    expect(error.message).not.toContain("private");
  });

  test("and does not fall through to a farther agent of the same name", async () => {
    using box = new Sandbox();
    embed(box, "a");
    agent(box, ROOTS[0] ?? "", "a", "nonsense: 1\n");
    expect((await failure(() => loadAgent("a", box.trusted()))).code).toBe("INVALID");
  });
});

describe("the list of agents", () => {
  test("has all that can be read, and each broken one with its path", async () => {
    using box = new Sandbox();
    embed(box, "default");
    const broken = agent(box, ROOTS[0] ?? "", "broken", "x: 1\n");
    const torn = box.write(`${ROOTS[1]}/torn/agent.yaml`, "name: [torn\n");
    agent(box, ROOTS[2] ?? "", "mine");
    box.write(`${ROOTS[0]}/lib/helper.py`, "the folder of another program");
    const { agents, problems } = await loadAgents(box.sources());
    expect(agents.map(({ name, tier }) => [name, tier])).toEqual([
      ["default", "embedded"],
      ["mine", "user"],
    ]);
    expect(problems.map(({ path }) => path)).toEqual([broken, torn]);
  });

  test("names one that a nearer hides, unless the two are the same", async () => {
    using box = new Sandbox();
    embed(box, "a");
    box.write(`${ROOTS[0]}/a/agent.yaml`, "name: a\ndescription: embedded\n");
    box.write(`${ROOTS[0]}/a/instructions.md`, "Embedded.\n");
    embed(box, "b");
    const b = agent(box, ROOTS[1] ?? "", "b");
    const { shadowed, agents } = await loadAgents(box.trusted());
    expect(shadowed).toEqual([{ name: "b", path: "embedded", by: b }]);
    expect(agents.map(({ tier }) => tier)).toEqual(["embedded", "project"]);
    const untrusted = await loadAgents(box.sources());
    expect(untrusted.shadowed).toEqual([{ name: "b", path: b, by: "embedded" }]);
    expect(untrusted.agents.map(({ tier }) => tier)).toEqual(["embedded", "embedded"]);
  });
});

describe("an agent's checks", () => {
  test("of an untrusted project end the run before it begins, and run once they are trusted", async () => {
    using box = new Sandbox();
    agent(box, ROOTS[0] ?? "", "a", "checks: [npm test]\n");
    const untrusted = await loadAgent("a", box.sources());
    const error = await failure(() => requireChecks(untrusted));
    expect(error.code).toBe("INVALID");
    expect(error.message).toContain("rnix trust");
    requireChecks(await loadAgent("a", { ...box.sources(), trust: trustAll }));
  });

  test("of the user's own agents need no trust", async () => {
    using box = new Sandbox();
    agent(box, ROOTS[2] ?? "", "a", "checks: [npm test]\n");
    requireChecks(await loadAgent("a", box.sources()));
  });

  test("are not required of an agent without checks", async () => {
    using box = new Sandbox();
    agent(box, ROOTS[0] ?? "", "a");
    requireChecks(await loadAgent("a", box.sources()));
  });
});

test("a skill with scripts of an untrusted project is left out of the agent, and the notice names it", async () => {
  using box = new Sandbox();
  box.write("home/work/skills/rel/SKILL.md", "---\nname: rel\ndescription: d\n---\nRun it.\n");
  box.write("home/work/skills/rel/scripts/go.sh", "echo go\n");
  agent(box, ROOTS[0] ?? "", "a", "skills: [rel]\n");
  const untrusted = await loadAgent("a", box.sources());
  expect(untrusted.skills).toEqual([]);
  expect(untrusted.untrusted.join()).toContain("the skill rel with its scripts");
  const trusted = await loadAgent("a", { ...box.sources(), trust: trustAll });
  expect(trusted.skills.map(({ name }) => name)).toEqual(["rel"]);
});
