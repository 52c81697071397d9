import { expect, test } from "bun:test";
import { Machine } from "../support/machine.ts";
import { calls, says } from "../support/scenes.ts";
import { verdict } from "../support/verdict.ts";

test("a CLAUDE.md is part of the prompt where there is no AGENTS.md", async () => {
  await using machine = new Machine();
  const model = await machine.play({ "read it": [says("read")] });
  machine.write("CLAUDE.md", "Run the tests with `make check`.\n");
  await verdict(machine, ["read it"]);
  expect(JSON.stringify(model.requests[0])).toContain("Run the tests with `make check`.");
  machine.write("AGENTS.md", "Use tabs.\n");
  await verdict(machine, ["read it"]);
  const second = JSON.stringify(model.requests[1]);
  expect([second.includes("Use tabs."), second.includes("make check")]).toEqual([true, false]);
});

test("a CLAUDE.md beside an AGENTS.md of another text is named by the first run only", async () => {
  await using machine = await Machine.playing({ "read it": [says("read")] });
  machine.write("CLAUDE.md", "Use spaces.\n");
  machine.write("AGENTS.md", "Use tabs.\n");
  const named = /CLAUDE\.md is not read, because \S*AGENTS\.md is/;
  expect((await verdict(machine, ["read it"])).stderr).toMatch(named);
  expect((await verdict(machine, ["read it"])).stderr).not.toMatch(named);
});

test("a skill that lists unknown tools removes none, and the run names the missing ones", async () => {
  await using machine = await Machine.playing({
    "do it": [
      calls(["Skill", { skill: "fetch" }]),
      calls(["Write", { path: "x.txt", content: "x" }]),
      says("done"),
    ],
  });
  machine.agent("a", "name: a\ndescription: A\ndeferred_skills: [fetch]\n", "Do.\n");
  machine.write(
    ".claude/skills/fetch/SKILL.md",
    "---\nname: fetch\ndescription: Fetches\nallowed-tools: NotebookEdit, Read\nmodel: opus\n---\nFetch it.\n",
  );
  const { receipt, stderr } = await verdict(machine, ["do it", "--agent", "a", "--trust"]);
  expect(receipt).toMatchObject({ exit_code: 0, files_changed: ["x.txt"] });
  expect(stderr).toContain("Skill fetch is made for NotebookEdit, which this run may not use");
  const checked = await machine.run(["skills", "check", ".claude/skills"]);
  expect(checked.code).toBe(0);
  expect(checked.stdout).toContain('SKILL.md:5:1: the key "model" is not part of the format');
});

test("a new agent and a new skill work as they are written, before any trust", async () => {
  await using machine = new Machine();
  const model = await machine.play({ "read it": [says("read")] });
  for (const args of [
    ["agents", "new", "reviewer"],
    ["skills", "new", "baking"],
  ]) {
    await machine.ok(args);
  }
  const { receipt, stderr } = await verdict(machine, ["read it", "--agent", "reviewer", "--skill", "baking"]);
  expect(receipt).toMatchObject({ exit_code: 0, agent: "reviewer" });
  expect(stderr).not.toContain("note: ");
  const [request] = model.requests;
  expect(request?.text).toContain("You answer a question about this project.");
  expect(request?.text).toContain("# Skill: baking");
  expect((await machine.run(["agents"])).stdout).toMatch(/reviewer +Read,Glob/);
});
