import { expect, test } from "bun:test";
import { Machine } from "../support/machine.ts";
import { calls, says } from "../support/scenes.ts";
import { verdict } from "../support/verdict.ts";

test("a run in a repository leaves git status clean, in its root, below it and in a linked work tree", async () => {
  await using machine = await Machine.playing(
    { "do it": [calls(["Bash", { command: "true" }]), says("done")] },
    { git: true },
  );
  const folders = [machine.project, machine.write("below/kept.txt", "").replace("/kept.txt", "")];
  machine.commit("below");
  machine.git("worktree", "add", "--quiet", `${machine.elsewhere}/linked`);
  folders.push(`${machine.elsewhere}/linked`);
  for (const cwd of folders) {
    await machine.ok(["spawn", "do it", "--no-daemon"], { cwd });
    expect(machine.git("-C", cwd, "status", "--short")).toBe("");
  }
  expect(machine.has(".rnix/data/steps")).toBe(true);
  expect(machine.has(".rnix/.gitignore")).toBe(false);
});

test("what belongs to the repository in .rnix stays visible to git", async () => {
  await using machine = await Machine.playing({ "do it": [says("done")] }, { git: true });
  await machine.ok(["init"]);
  await machine.ok(["spawn", "do it", "--no-daemon"]);
  const shown = machine.git("status", "--short", "--untracked-files=all");
  expect(shown).toContain("?? .rnix/config.yaml");
  expect(shown).not.toContain(".rnix/data");
});

test("files_changed names what the run changed, not what the user's shell wrote meanwhile", async () => {
  await using machine = new Machine({ git: true });
  const user = (file: string) => () => {
    machine.write(file, "the user's\n");
  };
  const beside = (file: string, turn: ReturnType<typeof says>) => async () => {
    // While the model thinks, and no call of the run is under way: times are compared with a tolerance of 25 ms.
    await Bun.sleep(100);
    user(file)();
    await Bun.sleep(100);
    return turn;
  };
  const write = calls(["Write", { path: "written.txt", content: "w" }]);
  const bash = calls(["Bash", { command: "echo b > made.txt; echo more >> README.md; rm gone.txt" }]);
  machine.write("gone.txt", "");
  machine.commit("more");
  await machine.play({
    "write it": [write, beside("notes.txt", says("done"))],
    "make it": [write, beside("before.txt", bash), beside("after.txt", says("done"))],
    "ask for it": [calls(["Agent", { intent: "child" }]), says("done")],
    child: [calls(["Bash", { command: "echo c > childs.txt" }]), beside("meanwhile.txt", says("made"))],
  });
  const written = await verdict(machine, ["write it"]);
  expect(written.receipt).toMatchObject({ files_changed: ["written.txt"], files_changed_complete: true });
  const made = await verdict(machine, ["make it", "--check", "echo c > checked.txt"]);
  expect(made.receipt.files_changed).toEqual([
    "README.md",
    "checked.txt",
    "gone.txt",
    "made.txt",
    "written.txt",
  ]);
  const asked = await verdict(machine, ["ask for it"]);
  expect(asked.receipt.files_changed).toEqual(["childs.txt"]);
});
