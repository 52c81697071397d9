import { describe, expect, test } from "bun:test";
import { join } from "node:path";
import { Machine } from "./support/machine.ts";
import { firstUserMessage, systemPrompt, toolNames, toolResults } from "./support/requests.ts";
import { calls, says } from "./support/scenes.ts";
import { verdict } from "./support/verdict.ts";

describe("the head of the prompt", () => {
  test("holds instructions, skills, --system-prompt, AGENTS.md and the environment, in this order", async () => {
    await using machine = new Machine();
    const model = await machine.play({ "do it": [says("done")] });
    machine.write("AGENTS.md", "Of the whole project.\n");
    machine.write("sub/AGENTS.md", "Of the folder below.\n");
    machine.agent("poet", POET, "You write poems.\n");
    machine.write(".rnix/skills/rhyme/SKILL.md", skill("rhyme", "Finds rhymes", "Rhyme it."));
    machine.write(".claude/skills/metre/SKILL.md", skill("metre", "Counts feet", "Count them."));

    const flags = ["--agent", "poet", "--system-prompt", "Be brief.", "--cwd", "sub"];
    const { receipt } = await verdict(machine, ["do it", ...flags]);

    expect(receipt).toMatchObject({ exit_code: 0, agent: "poet" });
    const head = systemPrompt(model.last);
    const order = [
      "You write poems.",
      "# Skill: rhyme",
      "Rhyme it.",
      "# Skills that can be loaded",
      "- metre: Counts feet",
      "Be brief.",
      "Of the folder below.",
      "# Environment",
      `Project folder: ${machine.project}\nWorking folder: ${join(machine.project, "sub")} (relative paths start here)`,
    ];
    const places = order.map((part) => head.indexOf(part));
    expect(places).toEqual(places.toSorted((a, b) => a - b));
    expect(places).not.toContain(-1);
    for (const absent of ["Of the whole project.", "Count them."]) expect(head).not.toContain(absent);
    expect(toolNames(model.last)).toEqual(["Complete", "Glob", "Read", "Skill"]);
  });

  test("stays the same from the first step to the last, so that a provider's cache hits", async () => {
    await using machine = new Machine();
    const model = await machine.play({
      "do it": [
        calls(["Write", { path: "AGENTS.md", content: "New rules." }]),
        calls(["Skill", { skill: "testing" }]),
        says("done"),
      ],
    });
    await verdict(machine, ["do it"]);
    expect(new Set(model.requests.map(systemPrompt)).size).toBe(1);
    expect(new Set(model.requests.map((request) => JSON.stringify(request.body.tools))).size).toBe(1);
  });

  test.each(["openai", "anthropic"])(
    "of the default agent and a short intent: the whole request is at most 5.5 KiB, by %s",
    async (provider) => {
      await using machine = new Machine();
      const model = await machine.play({ "say hello to a friend": [says("hello")] });
      await verdict(machine, ["say hello to a friend", "--provider", provider]);
      expect(model.requests).toHaveLength(1);
      expect(Buffer.byteLength(model.last.text)).toBeLessThanOrEqual(5_632);
      expect(model.last.text).not.toMatch(/"\$schema"|"additionalProperties"|"title"/);
      expect(toolNames(model.last).join(" ")).toBe(
        "Agent Bash Complete Edit Glob Grep Read Skill ToolSearch Write",
      );
      // What keeps a model from failing is in it.
      for (const convention of [
        "Each line has its number and a tab in front",
        "`old_string` must be the exact text",
        "(relative paths start here)",
        "Default and maximum: usually 120000",
        "its background processes end too",
      ]) {
        expect(model.last.text).toContain(convention);
      }
    },
  );

  test.each(["openai", "anthropic"])(
    "with all deferred tools it is at most 5.5 KiB, too: only their names are in it, by %s",
    async (provider) => {
      await using machine = new Machine();
      const model = await machine.play({
        "say hello to a friend": [
          calls(["ToolSearch", { query: "CronList" }]),
          calls(["CronList", {}], ["TaskList", {}]),
          says("hello"),
        ],
      });
      machine.write(".rnix/plugins/device.ts", DEFERRED);
      await verdict(machine, ["say hello to a friend", "--trust", "--provider", provider]);
      const first = model.first;
      expect(Buffer.byteLength(first.text)).toBeLessThanOrEqual(5_632);
      expect(first.text).toMatch(/AskUser (?:\w+ )*CronCreate /);
      expect(first.text).not.toContain("What the model needs to know");
      expect(toolNames(model.requests[1] ?? expect.unreachable())).toEqual(
        [...toolNames(first), "CronList"].toSorted(),
      );
      expect(toolResults(model.last).slice(-2)).toEqual(["CronList was called", "TaskList was called"]);
    },
  );

  test("a called skill is a tool result; its list of tools removes none", async () => {
    await using machine = new Machine();
    const model = await machine.play({
      "do it": [
        calls(["Skill", { skill: "look" }]),
        calls(["Write", { path: "x.txt", content: "x" }], ["Glob", { pattern: "*.md" }]),
        says("done"),
      ],
    });
    machine.write("look.md", "");
    machine.agent("a", "name: a\ndescription: A\ndeferred_skills: [look]\n", "Do.\n");
    machine.write(
      "skills/look/SKILL.md",
      "---\nname: look\ndescription: Looks\nallowed-tools: Glob Read\n---\nOnly look.\n",
    );
    const { receipt } = await verdict(machine, ["do it", "--agent", "a", "--trust"]);
    expect(receipt).toMatchObject({ exit_code: 0, files_changed: ["x.txt"] });
    const [loaded, , found] = toolResults(model.last);
    expect(loaded).toContain("Only look.");
    expect(found).toBe("look.md");
    expect(machine.has("x.txt")).toBe(true);
  });
});

describe("the first message", () => {
  test("is the text of stdin with a dash, or without an intent", async () => {
    await using machine = new Machine();
    const model = await machine.play({ "say so": [says("so")] });
    for (const args of [["-"], []]) {
      const { receipt } = await verdict(machine, args, { stdin: { text: "say so\n" } });
      expect(receipt.result).toBe("so");
      expect(firstUserMessage(model.last)).toBe("say so");
    }
  });

  test("includes a file on stdin, a pipe with text and files of --add; with --no-stdin no stdin", async () => {
    await using machine = new Machine();
    const model = await machine.play({ "read this": [says("read")] });
    const file = machine.write("input.txt", "from a file\n");
    machine.write("more.txt", "and more\n");

    await verdict(machine, ["read this"], { stdin: { text: "from a pipe\n" } });
    expect(firstUserMessage(model.last)).toBe("read this\n\n<input>\nfrom a pipe\n\n</input>");

    await verdict(machine, ["read this", "--add", "more.txt"], { stdin: { file } });
    expect(firstUserMessage(model.last)).toContain("from a file\n");
    expect(firstUserMessage(model.last)).toContain("and more\n");

    await verdict(machine, ["read this", "--no-stdin"], { stdin: "open" });
    expect(firstUserMessage(model.last)).toBe("read this");
  });

  test("names a folder of --add, which may be used; the folder beside it may not", async () => {
    await using machine = new Machine();
    const outside = machine.elsewhere;
    const model = await machine.play({
      "look there": [
        calls(
          ["Read", { path: join(outside, "in", "a.txt") }],
          ["Read", { path: join(outside, "beside.txt") }],
          ["Read", { path: "../elsewhere/beside.txt" }],
        ),
        says("seen"),
      ],
    });
    machine.write(join(outside, "in", "a.txt"), "inside\n");
    machine.write(join(outside, "beside.txt"), "hidden\n");
    await verdict(machine, ["look there", "--add", join(outside, "in")]);
    const [inside, ...beside] = toolResults(model.last);
    expect(inside).toContain("inside");
    for (const result of beside) expect(result).toStartWith("Error PERMISSION");
  });
});

const POET = `name: poet
description: Writes poems
skills: [rhyme]
deferred_skills: [metre]
allowed_tools: [Read, Glob, Skill, Complete]
`;

const DEFERRED = `import { definePlugin, defineTool } from "rnix/plugin";

const NAMES = [
  "AskUser", "CronCreate", "CronDelete", "CronList", "MemoryCommit", "MemoryProfile", "MemoryRecall",
  "SkillFile", "SkillManage", "TaskCreate", "TaskGet", "TaskList", "TaskUpdate", "Wake",
];
const tools = NAMES.map((name) =>
  defineTool({
    name,
    description: "What the model needs to know before it calls this tool, in one or two sentences.",
    input: { type: "object", properties: { name: { type: "string" } } },
    defer: true,
    run: () => name + " was called",
  }),
);

export default definePlugin({ name: "device", tools });
`;

function skill(name: string, description: string, body: string): string {
  return `---\nname: ${name}\ndescription: ${description}\n---\n${body}\n`;
}
