import { describe, expect, test } from "bun:test";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { stockAgentFront } from "../../src/config/agents/agent-file.ts";
import { loadAgent, loadAgents } from "../../src/config/agents/agents.ts";
import type { ConfigSources, EmbeddedFile } from "../../src/config/config-sources.ts";
import { loadProviders } from "../../src/config/providers/providers.ts";
import { loadSettings } from "../../src/config/settings/settings.ts";
import { stockSkillFront } from "../../src/config/skills/skill-file.ts";
import { checkSkills, loadSkills } from "../../src/config/skills/skills.ts";
import { Sandbox } from "./sandbox.ts";

const ROOT = join(import.meta.dir, "../..");

function embedded(folder: string): EmbeddedFile[] {
  const dir = join(ROOT, folder);
  return readdirSync(dir, { recursive: true, encoding: "utf8" })
    .filter((path) => /\.(?:yaml|md)$/.test(path))
    .map((path) => ({ path, text: readFileSync(join(dir, path), "utf8") }));
}

function stock(box: Sandbox): ConfigSources {
  return { ...box.sources(), agents: embedded("agents"), skills: embedded("skills") };
}

/** What this version has: a stock agent may name nothing else. */
const TOOLS =
  "Read Write Edit Glob Grep Bash Agent Plan Skill Complete SendMessage ReadMessages MemoryCommit MemoryProfile MemoryRecall".split(
    " ",
  );

describe("the stock agents", () => {
  test("load without a warning, with the skills they name", async () => {
    using box = new Sandbox();
    const { agents, problems } = await loadAgents(stock(box));
    expect(problems).toEqual([]);
    expect(agents.map(({ name }) => name)).toEqual(["code-analyst", "coder", "default", "dream"]);
    expect(agents.flatMap(({ notices }) => notices)).toEqual([]);
    const skills = agents.map((agent) => [...agent.skills, ...agent.deferredSkills].map(({ name }) => name));
    expect(skills).toEqual([
      ["code-analysis"],
      ["testing", "code-analysis"],
      ["code-analysis", "testing"],
      [],
    ]);
  });

  test("that claim to be read-only have no tool that writes, git's --output included", async () => {
    using box = new Sandbox();
    const { agents } = await loadAgents(stock(box));
    const analyst = agents.find(({ name }) => name === "code-analyst");
    expect(analyst?.allowedTools).toEqual(["Read", "Glob", "Grep", "Plan", "Skill", "Complete"]);
  });

  test("name only tools that are there, and speak only of those they have", async () => {
    using box = new Sandbox();
    const { agents } = await loadAgents(stock(box));
    for (const { name, allowedTools, instructions } of agents) {
      const named = allowedTools.map((tool) => tool.replace(/\(.*/, ""));
      expect([name, named.filter((tool) => tool !== "*" && !TOOLS.includes(tool))]).toEqual([name, []]);
      const has = named.includes("*") ? TOOLS : named;
      const missing = TOOLS.filter((tool) => !has.includes(tool));
      const spoken = missing.filter((tool) =>
        new RegExp(`\\b(?:with|use|call) ${tool}\\b`, "i").test(instructions),
      );
      expect([name, spoken]).toEqual([name, []]);
    }
  });

  test("are short: every one of them is paid for with every model call", async () => {
    using box = new Sandbox();
    for (const { instructions } of (await loadAgents(stock(box))).agents) {
      expect(instructions.length).toBeLessThan(2500);
    }
  });
});

test("the stock skills hold to the letter of the format", async () => {
  const { checked, problems } = await checkSkills(join(ROOT, "skills"));
  expect(problems).toEqual([]);
  expect(checked.length).toBeGreaterThan(1);
});

test("our own checkout, whose folders are the stock ones, shadows none of its own files", async () => {
  using box = new Sandbox();
  for (const folder of ["agents", "skills"]) {
    for (const { path, text } of embedded(folder)) box.write(`home/work/${folder}/${path}`, text);
  }
  expect((await loadAgents(stock(box))).shadowed).toEqual([]);
  expect((await loadSkills(stock(box))).shadowed).toEqual([]);
});

test("what the build reads of them, through JSON, is what a run would read", async () => {
  using box = new Sandbox();
  const read = stock(box);
  const built: Pick<ConfigSources, "agents" | "skills"> = JSON.parse(
    JSON.stringify({
      agents: embedded("agents").map((file) => ({ ...file, front: stockAgentFront(file) })),
      skills: embedded("skills").map((file) => ({ ...file, front: stockSkillFront(file) })),
    }),
  );
  expect(built.agents.filter(({ front }) => front).length).toBe(4);
  expect(built.skills.filter(({ front }) => front).length).toBeGreaterThan(1);
  const agents = async (sources: ConfigSources): Promise<unknown> =>
    JSON.stringify(await loadAgents(sources));
  expect(await agents({ ...read, ...built })).toEqual(await agents(read));
});

test("the build's own parser reads of them what the library reads", async () => {
  using box = new Sandbox();
  const sources = stock(box);
  const built = await loadAgents(sources);
  for (const folder of ["agents", "skills"]) {
    for (const { path, text } of embedded(folder)) box.write(`home/work/${folder}/${path}`, text);
  }
  const onDisk = await loadAgents(box.trusted());
  const plain = ({ agents }: typeof built) => JSON.parse(JSON.stringify(agents, without));
  expect(plain(built)).toEqual(plain(onDisk));
  expect(onDisk.agents.map(({ tier }) => tier)).toEqual(Array(4).fill("project"));
});

/** Where something is from is the difference between the two. */
function without(key: string, value: unknown): unknown {
  return ["tier", "source", "dir"].includes(key) ? undefined : value;
}

test("what every spawn loads takes next to nothing once it is warm", async () => {
  using box = new Sandbox();
  box.write("home/.config/rnix/config.yaml", "max_steps: 50\n");
  box.write("home/work/.rnix/config.yaml", "timeout: 5m\n");
  box.write("home/.config/rnix/providers.yaml", "default_provider: openai\n");
  box.write("home/work/.rnix/providers.yaml", "providers: { openai: { default_model: m } }\n");
  const files = stock(box);
  const load = async () => {
    const sources = { ...box.sources(), agents: files.agents, skills: files.skills };
    await loadSettings(sources);
    await loadAgent("coder", sources);
    await loadProviders(sources);
  };
  for (let i = 0; i < 20; i++) await load();
  const times: number[] = [];
  for (let i = 0; i < 50; i++) {
    const start = performance.now();
    await load();
    times.push(performance.now() - start);
  }
  // The best of many: what the work costs, whatever else the machine does meanwhile. A few ms, or 20 on a slow one.
  expect(Math.min(...times)).toBeLessThan(20);
});
