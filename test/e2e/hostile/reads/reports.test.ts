import { expect, test } from "bun:test";
import { mkdirSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import { Machine } from "../../support/machine.ts";
import { calls, says, scenes } from "../../support/scenes.ts";

const FLAGS = ["--summary", "--junit", "--code-quality"];
const run = (...flags: string[]): string[] => ["spawn", "--no-daemon", "--no-stdin", "go", ...flags];
const all = (name: (flag: string) => string): string[] => FLAGS.flatMap((flag) => [flag, name(flag)]);
const nameOf = (flag: string): string => `report${flag}`;

test("a report that is a link of the checkout is refused before the run", async () => {
  await using machine = new Machine({ git: true });
  const model = await machine.model(scenes({ go: [says("done")] }));
  const victim = machine.write(join(machine.elsewhere, ".bashrc"), "mine\n");
  machine.write("inside.xml", "mine\n");
  for (const target of [victim, "inside.xml", join(machine.elsewhere, "new")]) {
    for (const flag of FLAGS) {
      symlinkSync(target, join(machine.project, "link"));
      const { code, stderr } = await machine.run(run(flag, "link"));
      expect([flag, target, code, stderr]).toEqual([flag, target, 64, expect.stringContaining("is a link")]);
      machine.remove("link");
    }
  }
  machine.write("cases/a/script.json", JSON.stringify({ intent: "go", responses: [{ text: "x" }] }));
  symlinkSync(victim, join(machine.project, "link"));
  const { code, stderr } = await machine.run(["test", "cases", "--junit", "link"]);
  expect([code, stderr]).toEqual([64, expect.stringContaining("is a link")]);
  expect(machine.read(victim)).toBe("mine\n");
  expect(machine.has(join(machine.elsewhere, "new"))).toBe(false);
  expect(model.requests).toBeEmpty();
});

test("what a run makes of its reports, links, folders of links and FIFOs, neither leads elsewhere nor waits", async () => {
  await using machine = new Machine({ git: true });
  const victim = machine.write(join(machine.elsewhere, "victim"), "mine\n");
  mkdirSync(join(machine.project, "out"));
  machine.write(join(machine.elsewhere, "out", "report--junit"), "mine\n");
  machine.write(join(machine.elsewhere, "step"), "earlier\n");
  const script = [
    `ln -s ${victim} report--summary`,
    `rmdir out; ln -s ${join(machine.elsewhere, "out")} out`,
    "mkfifo report--code-quality",
    `rm ${join(machine.elsewhere, "step")}; ln -s ${victim} ${join(machine.elsewhere, "step")}`,
  ];
  await machine.model(scenes({ go: [calls(["Bash", { command: script.join("\n") }]), says("done")] }));
  const flags = all((flag) => (flag === "--junit" ? `out/${nameOf(flag)}` : nameOf(flag)));
  const github = { GITHUB_ACTIONS: "true", GITHUB_STEP_SUMMARY: join(machine.elsewhere, "step") };
  const { code, stderr } = await machine.run(run(...flags), { env: github });
  expect(code).toBe(1);
  expect(stderr).toMatch(/the run completed; not written: .*report--summary.*report--junit/);
  expect(stderr).toContain("report--summary could not be written: it is a link now");
  expect(stderr).toContain("report--junit could not be written: a folder on its path is a link now");
  expect(stderr).toContain("report--code-quality could not be written: no program reads from it");
  expect(stderr).toContain("step could not be written: it is a link now");
  expect(machine.read(victim)).toBe("mine\n");
  expect(machine.read(join(machine.elsewhere, "out", "report--junit"))).toBe("mine\n");
});

test("a report on a full disk ends the command with an error, and a failed run keeps its exit code", async () => {
  await using machine = await Machine.playing({ go: [says("done")] });
  for (const flag of FLAGS) {
    const { code, stderr } = await machine.run(run(flag, "/dev/full"));
    expect([flag, code, stderr]).toEqual([flag, 1, expect.stringContaining("not written: /dev/full")]);
    const failed = await machine.run(run(flag, "/dev/full", "--max-steps", "1", "--check", "exit 3"));
    expect([failed.code, failed.stderr]).toEqual([1, expect.stringContaining("exit 3")]);
    expect(failed.stderr).not.toContain("the run completed");
  }
});

test("a FIFO with a reader, /dev/stdout and a folder that is a link of the user get their reports", async () => {
  await using machine = new Machine({ git: true });
  await machine.model(scenes({ go: [says("done")] }));
  mkdirSync(join(machine.elsewhere, "reports"));
  symlinkSync(join(machine.elsewhere, "reports"), join(machine.project, "reports"));
  Bun.spawnSync(["mkfifo", join(machine.project, "fifo")]);
  const reader = Bun.spawn(["cat", join(machine.project, "fifo")], { stdout: "pipe" });
  // A pipe: the tests' own stdout is a socket, which no path opens.
  machine.wrapper = ["bash", "-o", "pipefail", "-c", '"$@" | cat', "bash"];
  const flags = ["--summary", "/dev/stdout", "--junit", "fifo", "--code-quality", "reports/quality.json"];
  const { code, stdout, stderr } = await machine.run(run(...flags));
  machine.wrapper = [];
  expect([code, stderr]).toEqual([0, expect.not.stringContaining("could not be written")]);
  expect(stdout).toContain("Rnix");
  expect(await new Response(reader.stdout).text()).toContain("</testsuites>");
  expect(machine.read(join(machine.elsewhere, "reports", "quality.json"))).toBe("[]\n");
});
