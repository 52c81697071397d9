import { expect, test } from "bun:test";
import { appendFileSync, chmodSync, existsSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { SIGTERM } from "../../../src/lib/signals.ts";
import { calls, KernelHarness, says, script, toolDevice } from "../../support/kernel.ts";

/** A run that changes a file in a git work tree which says these things to git. */
async function runIn(
  config: (trap: string) => string,
  attributes = "",
): Promise<{ sprung: boolean; files: string[] }> {
  const write = toolDevice("Write", async () => {
    writeFileSync(join(h.project, "old.txt"), "changed");
    writeFileSync(join(h.project, "new.txt"), "new");
    return "ok";
  });
  await using h = new KernelHarness({
    model: script(calls(["Write", {}]), says("done")),
    devices: { "/dev/write": write },
  });
  const git = (...args: string[]) =>
    Bun.spawnSync(["git", "-c", "user.name=t", "-c", "user.email=t@t", ...args], { cwd: h.project });
  git("init", "-q");
  writeFileSync(join(h.project, "old.txt"), "as it was");
  writeFileSync(join(h.project, ".gitignore"), ".rnix\n");
  git("add", "-A");
  git("commit", "-q", "-m", "first");
  const trap = join(h.dir, "trap.sh");
  const sprung = join(h.dir, "sprung");
  writeFileSync(trap, `#!/bin/sh\ntouch ${sprung}\ncat\n`);
  chmodSync(trap, 0o700);
  if (attributes !== "") {
    mkdirSync(join(h.project, ".git/info"), { recursive: true });
    writeFileSync(join(h.project, ".git/info/attributes"), attributes);
  }
  appendFileSync(join(h.project, ".git/config"), config(trap));
  const { info } = await h.run("go");
  expect(info.files_changed_complete).toBe(true);
  return { sprung: existsSync(sprung), files: info.files_changed };
}

test.each([
  ["nothing special", () => "", ""],
  ["a file system monitor", (trap: string) => `[core]\n\tfsmonitor = ${trap}\n`, ""],
  [
    "a filter for what is added",
    (trap: string) => `[filter "x"]\n\tclean = ${trap}\n\trequired\n`,
    "* filter=x\n",
  ],
  ["a long-running filter", (trap: string) => `[filter "y"]\n\tprocess = ${trap}\n`, "* filter=y\n"],
])(
  "looking for what has changed runs nothing that the project brings: %s",
  async (_what, config, attributes) => {
    const { sprung, files } = await runIn(config, attributes);
    expect(sprung).toBe(false);
    expect(files).toEqual(["new.txt", "old.txt"]);
  },
);

test("a git that does not answer delays no kill", async () => {
  const act = toolDevice("Act", () => "never");
  await using h = new KernelHarness({ model: script(calls(["Act", {}])), devices: { "/dev/act": act } });
  const bin = join(h.dir, "bin");
  mkdirSync(join(h.project, ".git"), { recursive: true });
  mkdirSync(bin);
  // git has to decide about a name that a pattern may match.
  writeFileSync(join(h.project, ".gitignore"), "*.log\n");
  writeFileSync(join(h.project, "a.log"), "");
  writeFileSync(join(bin, "git"), "#!/bin/sh\nexec sleep 60\n", { mode: 0o700 });
  const pid = await h.spawn("go", { env: { PATH: `${bin}:${process.env.PATH}` } });
  while (h.children.list().length === 0) await new Promise((resolve) => setImmediate(resolve));
  h.kernel.processes.kill(pid, SIGTERM);
  const { info } = await h.follow(pid);
  // The call that git held up was never made.
  expect(info).toMatchObject({ exit_code: 143, tool_calls: 0, files_changed_complete: false });
});

test("a file below the project is named relative to it, whatever its folder is called", async () => {
  const device = toolDevice("Act", (_input, _signal, context) => {
    context.changed(join(h.project, "..drafts/a.txt"));
    return "acted";
  });
  const model = script(calls(["Act", {}]), says("done"));
  await using h: KernelHarness = new KernelHarness({ model, devices: { "/dev/act": device } });
  expect((await h.run("go")).info.files_changed).toEqual(["..drafts/a.txt"]);
});
