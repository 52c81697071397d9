import { expect, test } from "bun:test";
import { Machine } from "../../support/machine.ts";
import { bash, says } from "../../support/scenes.ts";
import { verdict } from "../../support/verdict.ts";

/** Plays one run of these commands, one step each; returns its UUID. */
async function played(machine: Machine, ...commands: string[]): Promise<string> {
  await machine.play({ go: [...commands.map((command) => bash(command)), says("done")] });
  return (await verdict(machine, ["go"])).receipt.uuid;
}

test("an undo that takes nothing back leaves --redo alone, and names the command that overwrites", async () => {
  await using machine = new Machine({ git: true });
  machine.write("a.txt", "a\n");
  machine.write("b.txt", "b\n");
  machine.commit("all");
  const uuid = await played(machine, "echo run >> a.txt; echo run >> b.txt");
  machine.write("b.txt", "user\n");
  const first = await machine.run(["undo", uuid]);
  expect([first.code, first.stdout]).toEqual([1, "restored  a.txt +0 -1\n"]);
  expect(first.stderr).toContain("rnix undo 1 b.txt --force\n");
  expect((await machine.run(["undo", uuid])).code).toBe(1);
  machine.write("b.txt", "b\n");
  expect((await machine.run(["undo", uuid])).stdout).toContain("unchanged  b.txt");
  expect((await machine.run(["undo", uuid, "--redo"])).stdout).toContain("restored  a.txt");
  expect([machine.read("a.txt"), machine.read("b.txt")]).toEqual(["a\nrun\n", "b\n"]);
});
