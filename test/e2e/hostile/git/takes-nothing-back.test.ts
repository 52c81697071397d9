import { expect, test } from "bun:test";
import {
  appendFileSync,
  chmodSync,
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { soak } from "../../../support/soak.ts";
import { Machine } from "../../support/machine.ts";
import { bash, says } from "../../support/scenes.ts";
import { verdict } from "../../support/verdict.ts";

/** A run that has changed `folder/a.txt` and `b.txt`; returns the folder of its record. */
async function played(machine: Machine): Promise<string> {
  machine.write("folder/a.txt", "a\n");
  machine.write("b.txt", "b\n");
  machine.commit("all");
  await machine.play({
    go: [bash("echo x >> folder/a.txt; echo x >> b.txt; echo n > folder/n.txt"), says("done")],
  });
  const { receipt } = await verdict(machine, ["go"]);
  return join(machine.project, ".rnix/data/steps", receipt.uuid);
}

test("comparing and undoing run nothing that a repository brings", async () => {
  await using machine = new Machine({ git: true });
  const trap = join(machine.elsewhere, "trap.sh");
  const traces = join(machine.elsewhere, "sprung");
  machine.write(trap, `#!/bin/sh\necho "$0 $*" >> ${traces}\ncat\n`);
  chmodSync(trap, 0o700);
  const record = await played(machine);
  machine.write(".gitattributes", "* filter=x diff=x merge=x text\n");
  for (const hook of ["post-index-change", "pre-commit", "post-checkout", "reference-transaction"]) {
    writeFileSync(join(machine.project, ".git/hooks", hook), readFileSync(trap), { mode: 0o700 });
  }
  appendFileSync(
    join(machine.project, ".git/config"),
    `[core]\n\tfsmonitor = ${trap}\n\tpager = ${trap}\n\tsshCommand = ${trap}\n[filter "x"]\n\tclean = ${trap}\n\tsmudge = ${trap}\n\tprocess = ${trap}\n\trequired\n[diff]\n\texternal = ${trap}\n[diff "x"]\n\tcommand = ${trap}\n\ttextconv = ${trap}\n[extensions]\n\tpartialClone = origin\n[remote "origin"]\n\turl = ext::${trap}\n\tpromisor = true\n[protocol]\n\tallow = always\n`,
  );
  mkdirSync(join(machine.project, ".git/objects/info"), { recursive: true });
  writeFileSync(join(machine.project, ".git/objects/info/alternates"), "/proc/self/fd\n/dev\n");
  mkdirSync(join(record, "snapshots/objects/info"), { recursive: true });
  writeFileSync(join(record, "snapshots/objects/info/alternates"), `/dev\n${machine.elsewhere}\n`);
  for (const args of [["diff"], ["diff", "--stat"], ["undo"], ["undo", "--redo"]]) {
    const { code, stderr } = await machine.run([...args, "1"]);
    expect([args, code, stderr]).toEqual([args, 0, expect.not.stringContaining("left alone")]);
  }
  // And a run in it, with what it changes.
  await machine.ok(["spawn", "go", "--no-daemon"]);
  const later = await machine.run(["undo"]);
  expect(later).toMatchObject({ code: 0, stdout: expect.stringContaining("restored  b.txt") });
  expect(existsSync(traces)).toBe(false);
});

test("a folder that is a link now leads no undo out of the project", async () => {
  await using machine = new Machine({ git: true });
  await played(machine);
  const outside = join(machine.elsewhere, "outside");
  renameSync(join(machine.project, "folder"), outside);
  symlinkSync(outside, join(machine.project, "folder"));
  const { code, stderr } = await machine.run(["undo", "1"]);
  expect([code, stderr]).toEqual([
    1,
    expect.stringContaining("folder/a.txt: a folder in its path is a link"),
  ]);
  expect(readFileSync(join(outside, "a.txt"), "utf8")).toBe("a\nx\n");
  expect(existsSync(join(outside, "n.txt"))).toBe(true);
  expect(machine.read("b.txt")).toBe("b\n");
  expect((await machine.run(["undo", "1", "folder/a.txt", "--force"])).code).toBe(1);
  expect(readFileSync(join(outside, "a.txt"), "utf8")).toBe("a\nx\n");
});

test("records that your Rnix did not write take nothing back", async () => {
  await using machine = new Machine({ git: true });
  await using stranger = new Machine({ git: true });
  const record = await played(stranger);
  cpSync(join(stranger.project, ".rnix"), join(machine.project, ".rnix"), { recursive: true });
  machine.write("b.txt", "b\nx\n");
  const cloned = await machine.run(["undo", record.slice(-36)]);
  expect([cloned.code, cloned.stderr]).toEqual([1, expect.stringContaining("foreign")]);
  expect(machine.read("b.txt")).toBe("b\nx\n");

  const log = join(record, "changes.jsonl");
  const own = readFileSync(log, "utf8");
  for (const path of ["../outside.txt", "/etc/hosts", ".git/hooks/pre-commit"]) {
    const line = { ...JSON.parse(own.split("\n")[1] ?? "{}"), path, mac: undefined };
    writeFileSync(log, `${own}${JSON.stringify(line)}\n`);
    const { code, stderr } = await stranger.run(["undo", "1"]);
    expect([code, stderr]).toEqual([
      1,
      expect.stringContaining("your Rnix did not write a line of its changes.jsonl"),
    ]);
  }
  expect(stranger.read("b.txt")).toBe("b\nx\n");
});

// The deadline of git passes.
test.if(soak(false, true))("FIFOs in place of objects and of changed files delay nothing", async () => {
  await using machine = new Machine({ git: true });
  const record = await played(machine);
  const objects = join(record, "snapshots/objects");
  for (const folder of readdirSync(objects))
    for (const name of readdirSync(join(objects, folder))) {
      rmSync(join(objects, folder, name));
      Bun.spawnSync(["mkfifo", join(objects, folder, name)]);
    }
  rmSync(join(machine.project, "b.txt"));
  Bun.spawnSync(["mkfifo", join(machine.project, "b.txt")]);
  const began = performance.now();
  const { code, stderr } = await machine.run(["undo", "1"]);
  expect(code).toBe(1);
  expect(stderr).toContain("folder/a.txt: its former content is missing or damaged");
  expect(stderr).toContain("b.txt: it is a FIFO");
  expect(performance.now() - began).toBeLessThan(45_000);
});
