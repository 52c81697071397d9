import { describe, expect, test } from "bun:test";
import { loadAgent, loadAgents, projectAgents } from "../../src/config/agents/agents.ts";
import { resolveProvider } from "../../src/config/providers/provider-choice.ts";
import { request } from "./provider-request.ts";
import { failure, Sandbox } from "./sandbox.ts";

const PROJECT = "home/work/.claude/agents";
const USER = "home/.claude/agents";

function claude(box: Sandbox, folder: string, file: string, front: string, body = "Do it.\n"): string {
  return box.write(`${folder}/${file}.md`, `---\n${front}---\n\n${body}`);
}

describe("an agent of Claude Code", () => {
  test("of the user has its instructions, tools, model, skills and limits", async () => {
    using box = new Sandbox();
    box.write("home/.claude/skills/one/SKILL.md", "---\nname: one\ndescription: d\n---\nOne.\n");
    const source = claude(
      box,
      USER,
      "reviewer",
      "name: reviewer\ndescription: Reviews\ntools: Read, MultiEdit, Bash(git diff:*), TodoWrite, mcp__github__search\nmodel: opus\nskills: one\nmaxTurns: 7\neffort: high\ncolor: blue\n",
      "  Review it.\n\n",
    );
    const agent = await loadAgent("reviewer", box.sources());
    expect(agent).toMatchObject({
      name: "reviewer",
      description: "Reviews",
      instructions: "Review it.",
      allowedTools: ["Read", "Edit", "Bash(git diff *)", "Plan", "mcp__github__search"],
      deny: [],
      max_steps: 7,
      effort: "high",
      claudeModel: "opus",
      mcpAll: false,
      source,
      tier: "user",
      notices: [],
    });
    expect(agent.model).toBeUndefined();
    expect(agent.skills.map(({ name }) => name)).toEqual(["one"]);
    expect(agent.mcp.map(({ name, required }) => ({ name, required }))).toEqual([
      { name: "github", required: false },
    ]);
  });

  test("without tools may use all, also those of every trusted server", async () => {
    using box = new Sandbox();
    claude(box, USER, "a", "name: a\ndescription: d\nmodel: inherit\n");
    const agent = await loadAgent("a", box.sources());
    expect(agent).toMatchObject({ allowedTools: ["*"], mcpAll: true, claudeModel: undefined, notices: [] });
  });

  test.each([
    ["denied tools are denied", "disallowedTools: Write, Bash(rm:*)\n", ["*"], ["Write", "Bash(rm *)"], 0],
    ["and taken from the list", "tools: [Read, Write]\ndisallowedTools: [Write]\n", ["Read"], ["Write"], 0],
    [
      "permissionMode plan only reads",
      "permissionMode: plan\n",
      ["Read", "Glob", "Grep", "Plan", "Skill", "Complete"],
      [],
      0,
    ],
    ["permissionMode plan narrows a list", "tools: Read, Bash\npermissionMode: plan\n", ["Read"], [], 0],
    ["permissionMode bypassPermissions gives nothing", "permissionMode: bypassPermissions\n", ["*"], [], 1],
    ["an unknown tool is noted", "tools: Read, NotebookEdit, Telepathy\n", ["Read"], [], 2],
    ["tools that do not exist here are none", "tools: NotebookEdit\n", [], [], 1],
    ["unknown keys are noted", "tools: Read\nhooks: { Stop: [] }\nmemory: user\n", ["Read"], [], 2],
    ["a missing skill is noted", "tools: Read\nskills: [gone]\n", ["Read"], [], 1],
    ["a server defined here is noted", "tools: Read\nmcpServers: { x: { command: y } }\n", ["Read"], [], 1],
    [
      "tools for tasks have the same names",
      "tools: TaskCreate, TaskUpdate\n",
      ["TaskCreate", "TaskUpdate"],
      [],
      0,
    ],
    ["a whole server", "tools: mcp__docs\n", ["mcp__docs__*"], [], 0],
  ] as const)("%s", async (_, more, allowed, deny, notes) => {
    using box = new Sandbox();
    claude(box, USER, "a", `name: a\ndescription: d\n${more}`);
    const agent = await loadAgent("a", box.sources());
    expect(agent.allowedTools).toEqual([...allowed]);
    expect(agent.deny).toEqual([...deny]);
    expect(agent.notices).toHaveLength(notes);
    for (const notice of agent.notices) if (!notice.includes("gone")) expect(notice).toContain("/a.md: ");
  });

  test("whose front matter is no YAML is read line by line", async () => {
    using box = new Sandbox();
    const description = 'Use this when: "a: b" <example>Context: user: hi\\nassistant: x</example>';
    claude(box, USER, "a", `name: a\ndescription: ${description}\ntools: Read, Grep\n`);
    const agent = await loadAgent("a", box.sources());
    expect(agent).toMatchObject({ description, allowedTools: ["Read", "Grep"] });
  });

  test("is called by the name in its file; other Markdown files are no agents", async () => {
    using box = new Sandbox();
    claude(box, USER, "01-review", "name: review\ndescription: d\n");
    box.write(`${USER}/README.md`, "# Agents\n");
    box.write(`${USER}/notes.md`, "---\ntitle: x\n---\n\nNo agent.\n");
    const { agents, problems } = await loadAgents(box.sources());
    expect(agents.map(({ name }) => name)).toEqual(["review"]);
    expect(problems).toEqual([]);
    expect(await failure(() => loadAgent("01-review", box.sources()))).toMatchObject({ code: "NOT_FOUND" });
  });

  test.each([
    ["no description", "name: a\n", "Do it.\n"],
    ["no text", "name: a\ndescription: d\n", "\n"],
  ])("with %s is a problem that names the file, and hides no other", async (_, front, body) => {
    using box = new Sandbox();
    const file = claude(box, USER, "a", front, body);
    claude(box, USER, "b", "name: b\ndescription: d\n");
    const { agents, problems } = await loadAgents(box.sources());
    expect(agents.map(({ name }) => name)).toEqual(["b"]);
    expect(problems[0]?.message).toContain(file);
  });
});

describe("an agent of Claude Code in a project", () => {
  test("only reads until it is trusted, and asks for the rest", async () => {
    using box = new Sandbox();
    const file = claude(
      box,
      PROJECT,
      "fixer",
      "name: fixer\ndescription: d\ntools: Read, Bash, Write(src/**)\nmodel: opus\nmaxTurns: 1000\n",
    );
    const agent = await loadAgent("fixer", box.sources());
    expect(agent).toMatchObject({
      allowedTools: ["Read"],
      claudeModel: undefined,
      tier: "project",
      source: file,
    });
    expect(agent.max_steps).toBeUndefined();
    expect(agent.withheld.map(({ key }) => key).sort()).toEqual(["allowed_tools", "max_steps", "models"]);
    const [asked] = await projectAgents(box.sources());
    expect(asked).toMatchObject({ name: "fixer", file });
    const trusted = await loadAgent("fixer", box.trusted());
    expect(trusted).toMatchObject({
      allowedTools: ["Read", "Bash", "Write(src/**)"],
      claudeModel: "opus",
      max_steps: 1000,
    });
  });

  test("does not take the name of the user's or a stock agent, and comes after .rnix/agents", async () => {
    using box = new Sandbox();
    claude(box, USER, "mine", "name: mine\ndescription: the user's\n");
    claude(box, PROJECT, "mine", "name: mine\ndescription: the project's\n");
    claude(box, PROJECT, "own", "name: own\ndescription: of Claude Code\n");
    box.write("home/work/.rnix/agents/own/agent.yaml", "name: own\ndescription: of Rnix\n");
    box.write("home/work/.rnix/agents/own/instructions.md", "Do it.\n");
    expect(await loadAgent("mine", box.sources())).toMatchObject({
      description: "the user's",
      untrusted: [expect.stringContaining("does not replace your agent mine")],
    });
    expect((await loadAgent("mine", box.trusted())).description).toBe("the project's");
    expect((await loadAgent("own", box.sources())).description).toBe("of Rnix");
  });
});

test.each([
  ["anthropic", "opus", "anthropic claude-opus-5-5"],
  ["anthropic", "claude-opus-5", "anthropic claude-opus-5"],
  ["openai", "opus", "openai gpt-default"],
])("at %s its model %s is %s", async (provider, claudeModel, expected) => {
  using box = new Sandbox();
  const made = await request(box.sources(), {
    env: provider === "anthropic" ? { ANTHROPIC_API_KEY: "k" } : { OPENAI_API_KEY: "k" },
    agent: { name: "x", claudeModel },
  });
  const { name, model } = await resolveProvider(made);
  expect(`${name} ${model}`).toBe(expected);
});
