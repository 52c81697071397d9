import { expect, test } from "bun:test";
import { join } from "node:path";
import { Machine } from "./support/machine.ts";
import { bash, says } from "./support/scenes.ts";

const FILE = `---
name: fixer
description: Use when: a test fails
tools: Read, Bash(echo:*), NotebookEdit
disallowedTools: Write
model: opus
color: red
---

You fix tests.
`;

test("an agent of .claude/agents is listed with its file, runs, and waits for trust in a project", async () => {
  await using machine = new Machine();
  const model = await machine.model({
    turns: [bash("echo ran"), says("Done.")],
    loop: true,
  });
  const mine = machine.write(join(machine.home, ".claude/agents/fixer.md"), FILE);
  const listed = await machine.run(["agents"]);
  expect(listed.stdout).toMatch(
    new RegExp(`\\nfixer +Read,Bash\\(echo \\*\\) +- +${mine} +Use when: a test fails`),
  );
  expect(listed.stderr).toBe(`fixer: ${mine}: the tool NotebookEdit does not exist in Rnix\n`);

  const run = await machine.run(["fix it", "--agent", "fixer"]);
  expect(run.code).toBe(0);
  expect(run.stderr).toContain("    ran\n");
  expect(run.stderr).toContain("the tool NotebookEdit does not exist");
  const [request] = model.requests;
  expect(request?.model).toBe("m");
  expect(request?.text).toContain("You fix tests.");
  const detail = await machine.json(["show", "--json"]);
  expect(detail.permissions.deny).toEqual(["Write"]);
  // At Anthropic its model counts.
  const own = { RNIX_PROVIDER: undefined, RNIX_MODEL: undefined };
  await machine.run(["fix it", "--agent", "fixer", "--provider", "anthropic"], { env: own });
  expect(model.last.model).toBe("claude-opus-5-5");

  machine.write(".claude/agents/theirs.md", FILE.replace("name: fixer", "name: theirs"));
  const untrusted = await machine.run(["fix it", "--agent", "theirs"]);
  expect(untrusted.stderr).toContain("Bash");
  expect(untrusted.stderr).not.toContain("    ran\n");
  expect((await machine.run(["trust", "--show"])).stdout).toContain("agent theirs: tools Read, Bash(echo *)");
  await machine.ok(["trust", "--yes"]);
  expect((await machine.run(["fix it", "--agent", "theirs"])).stderr).toContain("    ran\n");
  machine.remove(join(machine.home, ".claude"));
});
