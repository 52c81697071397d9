import { expect, test } from "bun:test";
import { chmodSync, existsSync, mkdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { Machine } from "../../support/machine.ts";
import { bash, calls, says } from "../../support/scenes.ts";
import { receiptOf } from "../../support/verdict.ts";

/** A machine with a program outside of the project that leaves a trace when anything runs it. */
function withTrap(): { machine: Machine; trap: string; sprung: () => string } {
  const machine = new Machine({ git: true });
  const trap = join(machine.elsewhere, "trap.sh");
  const traces = join(machine.elsewhere, "sprung");
  machine.write(trap, `#!/bin/sh\necho "$0 $*" >> ${traces}\ncat\n`);
  chmodSync(trap, 0o700);
  return { machine, trap, sprung: () => (existsSync(traces) ? readFileSync(traces, "utf8") : "") };
}

const ALLOW = ["--allow", "Write", "--allow", "Write(.git/**)", "--output", "json"];

test("listing a run's changes runs nothing that it wrote into .git", async () => {
  const { machine, trap, sprung } = withTrap();
  await using _ = machine;
  const config = `[core]
	repositoryformatversion = 1
	sshCommand = ${trap}
	fsmonitor = ${trap}
[extensions]
	partialClone = origin
[remote "origin"]
	url = ssh://nowhere/x
	promisor = true
	partialclonefilter = blob:none
`;
  await machine.play({
    attack: [
      calls(
        ["Write", { path: ".git/config", content: config }],
        ["Write", { path: ".git/HEAD", content: `${"1".repeat(40)}\n` }],
        ["Write", { path: "new.txt", content: "new" }],
      ),
      says("done"),
    ],
    again: [calls(["Write", { path: "more.txt", content: "x" }]), says("done")],
  });
  for (const intent of ["attack", "again"]) {
    const receipt = receiptOf(await machine.run(["spawn", intent, ...ALLOW]));
    expect(receipt).toMatchObject({ exit_code: 0, files_changed_complete: true });
    expect(receipt.files_changed).toContain(intent === "attack" ? "new.txt" : "more.txt");
  }
  expect(sprung()).toBe("");
});

test("a git program in the project is not run, and the run's environment does not change git", async () => {
  const { machine, trap, sprung } = withTrap();
  await using _ = machine;
  machine.write("node_modules/.bin/git", readFileSync(trap, "utf8"));
  chmodSync(join(machine.project, "node_modules/.bin/git"), 0o700);
  await machine.play({ go: [calls(["Write", { path: "new.txt", content: "x" }]), says("done")] });
  const env = {
    PATH: `${join(machine.project, "node_modules/.bin")}:${machine.env.PATH}`,
    GIT_CONFIG_COUNT: "1",
    GIT_CONFIG_KEY_0: "core.fsmonitor",
    GIT_CONFIG_VALUE_0: trap,
    GIT_DIR: "/nowhere",
    GIT_TRACE: join(machine.elsewhere, "sprung"),
  };
  expect(receiptOf(await machine.run(["spawn", "go", ...ALLOW], { env }))).toMatchObject({
    files_changed: ["new.txt"],
    files_changed_complete: true,
  });
  expect(sprung()).toBe("");
});

test("a FIFO as .git/config delays neither the run nor its end by a signal", async () => {
  const { machine } = withTrap();
  await using _ = machine;
  const config = join(machine.project, ".git/config");
  mkdirSync(join(machine.project, ".git"), { recursive: true });
  Bun.spawnSync(["sh", "-c", `rm -f '${config}' && mkfifo '${config}'`]);
  await machine.play({
    go: [calls(["Write", { path: "new.txt", content: "x" }]), says("done")],
    wait: [bash("touch held; sleep 600"), says("done")],
  });
  expect(receiptOf(await machine.run(["spawn", "go", "--timeout", "20s", ...ALLOW]))).toMatchObject({
    exit_reason: "completed",
    files_changed: ["new.txt"],
    files_changed_complete: false,
  });
  const waiting = machine.start(["spawn", "wait", "--allow", "Bash"]);
  await machine.held();
  await machine.ok(["kill", "-s", "KILL", "2"]);
  expect((await waiting.done).code).toBe(137);
});
