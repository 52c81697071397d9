import { expect, setDefaultTimeout, test } from "bun:test";
import { Machine } from "../support/machine.ts";
import { calls, says, scenes } from "../support/scenes.ts";

setDefaultTimeout(120_000);

test("a run in a repository leaves git status clean, in its root, below it and in a linked work tree", async () => {
  await using machine = new Machine({ git: true });
  await machine.model(scenes({ "do it": [calls(["Bash", { command: "true" }]), says("done")] }));
  const folders = [machine.project, machine.write("below/kept.txt", "").replace("/kept.txt", "")];
  machine.git("add", ".");
  machine.git("commit", "--quiet", "--message", "below");
  machine.git("worktree", "add", "--quiet", `${machine.elsewhere}/linked`);
  folders.push(`${machine.elsewhere}/linked`);
  for (const cwd of folders) {
    expect((await machine.run(["spawn", "do it", "--no-daemon"], { cwd })).code).toBe(0);
    expect(machine.git("-C", cwd, "status", "--short")).toBe("");
  }
  expect(machine.has(".rnix/data/steps")).toBe(true);
  expect(machine.has(".rnix/.gitignore")).toBe(false);
});

test("what belongs to the repository in .rnix stays visible to git", async () => {
  await using machine = new Machine({ git: true });
  await machine.model(scenes({ "do it": [says("done")] }));
  expect((await machine.run(["init"])).code).toBe(0);
  expect((await machine.run(["spawn", "do it", "--no-daemon"])).code).toBe(0);
  const shown = machine.git("status", "--short", "--untracked-files=all");
  expect(shown).toContain("?? .rnix/config.yaml");
  expect(shown).not.toContain(".rnix/data");
});
