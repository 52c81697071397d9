import { expect, test } from "bun:test";
import { renameSync } from "node:fs";
import { join } from "node:path";
import { Machine } from "../../support/machine.ts";
import { calls, says, scenes } from "../../support/scenes.ts";

/** git waits for a FIFO until it is ended after ten seconds; a device without end would fill the memory meanwhile. */
const LONGEST_MS = 8_000;

/** Runs `rnix` to its end, and measures it. */
async function timed(
  machine: Machine,
  args: string[],
): Promise<{ code: number; stderr: string; ms: number }> {
  const begin = performance.now();
  const { code, stderr } = await machine.run(args);
  return { code, stderr, ms: performance.now() - begin };
}

test("a FIFO where git looks for other folders of objects holds up no run, no diff and no --base", async () => {
  for (const where of [".git/objects/info/alternates", "more/info/alternates"]) {
    await using machine = new Machine({ git: true });
    await machine.model(
      scenes({ go: [calls(["Bash", { command: "echo changed > README.md" }]), says("done")] }),
    );
    machine.write(join(machine.project, where, "..", "keep"), "");
    Bun.spawnSync(["mkfifo", join(machine.project, where)]);
    if (where.startsWith("more"))
      machine.write(".git/objects/info/alternates", `# another\n../../more\n${machine.elsewhere}\n`);
    const ran = await timed(machine, ["spawn", "go", "--no-daemon", "--no-stdin"]);
    expect([where, ran.code]).toEqual([where, 0]);
    const changed = await timed(machine, ["diff"]);
    expect([where, changed.code]).toEqual([where, 0]);
    const base = await timed(machine, ["spawn", "go", "--no-daemon", "--no-stdin", "--base", "HEAD"]);
    expect([where, base.code]).toEqual([where, 64]);
    expect(Math.max(ran.ms, changed.ms, base.ms)).toBeLessThan(LONGEST_MS);
  }
});

test("objects that are in another repository are found", async () => {
  await using machine = new Machine({ git: true });
  const model = await machine.model(scenes({ go: [says("done")] }));
  machine.write("AGENTS.md", "THE BASE\n");
  machine.git("add", ".");
  machine.git("commit", "--quiet", "--message", "agents");
  const other = join(machine.elsewhere, "other");
  Bun.spawnSync(["git", "clone", "--quiet", "--bare", machine.project, other], { env: machine.env });
  renameSync(join(machine.project, ".git/objects"), join(machine.elsewhere, "gone"));
  machine.write(".git/objects/info/alternates", `${other}/objects\n`);
  machine.write("AGENTS.md", "THE CHECKOUT\n");
  const { code } = await machine.run(["spawn", "go", "--no-daemon", "--no-stdin", "--base", "HEAD"]);
  expect(code).toBe(0);
  expect(JSON.stringify(model.requests.at(-1))).toContain("THE BASE");
});
