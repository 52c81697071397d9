import { expect, test } from "bun:test";
import {
  cpSync,
  linkSync,
  mkdirSync,
  readdirSync,
  renameSync,
  rmSync,
  symlinkSync,
  utimesSync,
} from "node:fs";
import { basename, dirname, join } from "node:path";
import { CronMachine } from "../../support/cron-machine.ts";
import { Machine } from "../../support/machine.ts";
import { bash, calls, says, scenes } from "../../support/scenes.ts";
import { Receipt } from "../../support/verdict.ts";

const DAY_S = 24 * 60 * 60;
const OLD = "01975a2e-0000-7000-8000-00000000000";

async function ran(machine: Machine, intent = "go", env = {}): Promise<string> {
  const { stdout, stderr } = await machine.run(["spawn", intent, "--output", "json"], { env });
  if (stdout === "") throw new Error(stderr);
  return Receipt.parse(JSON.parse(stdout)).uuid;
}

/** A folder that looks like a run's and is not: with a file, and without. Old enough to be collected. */
function victims(folder: string): void {
  for (const [name, file] of [
    [`${OLD}1`, "precious"],
    [`${OLD}2`, "proc-info.json"],
  ] as const) {
    mkdirSync(join(folder, name, "below"), { recursive: true });
    if (file === "precious") rmSync(join(folder, name, "below"), { recursive: true });
    Bun.spawnSync(["sh", "-c", `echo x > "$0"`, join(folder, name, file)]);
    const then = Date.now() / 1000 - 10 * DAY_S;
    utimesSync(join(folder, name), then, then);
  }
}

function everything(folder: string): string[] {
  return readdirSync(folder, { recursive: true, encoding: "utf8" }).sort();
}

for (const part of [".rnix", ".rnix/data", ".rnix/data/steps", ".rnix/data/gc", ".rnix/data/spending"]) {
  test(`a link instead of ${part} gives no command access outside the project`, async () => {
    await using machine = new Machine({ git: true });
    machine.config({ retention_runs: 1, tokens_per_day: 1_000_000 });
    const model = await machine.play({ go: [says("done")] });
    // The project is known, with runs to be collected.
    for (let run = 0; run < 3; run++) await ran(machine);
    await machine.run(["daemon", "stop"]);
    const path = join(machine.project, part);
    const target = join(machine.elsewhere, basename(part));
    mkdirSync(path, { recursive: true });
    renameSync(path, target);
    const steps = join(target, ...["data", "steps"].slice(part.split("/").length - 1));
    victims(part.endsWith("steps") || !part.includes("/data/") ? steps : target);
    const before = everything(target);
    symlinkSync(target, path);

    const asked = model.requests.length;
    for (const where of [[], ["--no-daemon"]]) {
      const { code, stderr } = await machine.run(["spawn", "go", ...where]);
      expect({ code, stderr }).toEqual({ code: 64, stderr: expect.stringContaining(`${path} is a link`) });
      expect(stderr).toContain("RNIX_DATA_DIR");
    }
    expect(model.requests.length).toBe(asked);
    const listed = await machine.run(["ps", "-a"]);
    expect(listed.code).toBe(0);
    const { code, stderr } = await machine.run(["gc"]);
    expect({ code, stderr }).toEqual({ code: 0, stderr: expect.any(String) });
    if (!part.endsWith("spending")) expect(stderr).toContain("is a link");
    expect(everything(target)).toEqual(before);
  });
}

for (const part of ["cron/hooks", "cron/watch", "skills/rel", "skills", "memory"]) {
  test(`a link instead of .rnix/data/${part} leads no job and no tool outside the project`, async () => {
    await using machine = new CronMachine();
    const skill = { action: "create", name: "rel", description: "How to release.", body: "# x" };
    const memory = { action: "add", target: "memory", content: "a fact" };
    await machine.scripted(
      scenes({ go: [calls(["SkillManage", skill], ["MemoryCommit", memory]), says("done")] }),
    );
    const target = join(machine.elsewhere, "target");
    mkdirSync(target);
    const path = join(machine.project, ".rnix/data", part);
    const add = ["cron", "add", "go", "--provider", "openai", "--model", "m"];
    const jobs = [
      [...add, "--name", "hook", "--on-hook", "h"],
      [...add, "--name", "change", "--on-change", "*.md"],
    ];
    mkdirSync(dirname(path), { recursive: true });
    symlinkSync(target, path);
    for (const args of [
      ...jobs,
      ["spawn", "go"],
      ["memory", "add", "a fact"],
      ["spawn", "go", "--no-daemon"],
    ]) {
      const { code, stderr } = await machine.run(args);
      if (code !== 0) expect([args, stderr]).toEqual([args, expect.stringContaining("is a link")]);
    }
    // The link is there only after the jobs: the daemon that starts with them writes nothing, either.
    rmSync(path);
    for (const job of jobs) expect((await machine.run(job)).stderr).not.toContain("is a link");
    await machine.run(["daemon", "stop"]);
    rmSync(path, { recursive: true, force: true });
    mkdirSync(dirname(path), { recursive: true });
    symlinkSync(target, path);
    await machine.run(["daemon", "start"]);
    machine.write("a.md", "x");
    if (part.startsWith("cron")) await machine.until(["daemon", "logs"], new RegExp(`${part}.* is a link`));
    expect(everything(target)).toEqual([]);
    await machine.run(["cron", "rm", "hook", "change"]);
  });
}

test("a data folder that the user names may be a link", async () => {
  await using machine = new Machine();
  machine.config({ retention_runs: 1 });
  await machine.play({ go: [says("done")] });
  const [real, named] = [join(machine.elsewhere, "real"), join(machine.elsewhere, "named")];
  mkdirSync(join(real, "runs"), { recursive: true });
  symlinkSync(join(real, "runs"), join(real, "steps"));
  symlinkSync(real, named);
  const env = { RNIX_DATA_DIR: named };
  for (let run = 0; run < 2; run++) await ran(machine, "go", env);
  expect((await machine.run(["gc"], { env })).stdout).toContain("1 runs removed");
  expect(readdirSync(join(real, "runs"))).toHaveLength(1);
});

test("gc removes only folders that Rnix made", async () => {
  await using machine = new Machine();
  machine.config({ retention_runs: 1 });
  await machine.play({ go: [says("done")] });
  const [first, last] = [await ran(machine), await ran(machine)];
  const steps = join(machine.project, ".rnix/data/steps");
  victims(steps);
  const going = join(machine.project, ".rnix/data/gc/going");
  mkdirSync(join(going, "not-a-run"), { recursive: true });
  // Run folders by link, to what is Rnix's own and to what is not.
  cpSync(join(steps, first), join(machine.elsewhere, first), { recursive: true });
  rmSync(join(steps, first), { recursive: true });
  symlinkSync(join(machine.elsewhere, first), join(steps, first));
  symlinkSync(machine.elsewhere, join(steps, `${OLD}3`));
  const before = everything(machine.elsewhere);
  const { code, stderr } = await machine.run(["gc"]);
  expect(code).toBe(0);
  expect(stderr).toContain(`${join(steps, `${OLD}1`)} holds no record that your Rnix wrote`);
  expect(readdirSync(steps).sort()).toEqual([`${OLD}1`, `${OLD}2`, `${OLD}3`, first, last].sort());
  expect(readdirSync(going)).toEqual(["not-a-run"]);
  expect(everything(machine.elsewhere)).toEqual(before);
});

test("resume does not write through a link in a run's folder", async () => {
  await using machine = await Machine.playing({ go: [bash("echo x"), says("done")] });
  const uuid = await ran(machine);
  const dir = join(machine.project, ".rnix/data/steps", uuid);
  for (const name of ["steps.jsonl", "proc-info.json", "process-meta.json", "inbox.jsonl", "resume.lock"]) {
    const [path, aside] = [join(dir, name), join(machine.elsewhere, name)];
    machine.write(path, machine.has(path) ? machine.read(path) : "");
    const text = machine.read(path);
    linkSync(path, aside);
    const { code, stderr } = await machine.run(["resume", uuid, "go on"]);
    expect([name, code, stderr]).toEqual([name, 64, expect.stringContaining("hard link")]);
    expect(machine.read(aside)).toBe(text);
    rmSync(aside);
    if (text === "") rmSync(path);
  }
  for (const name of ["results", "spill"]) {
    rmSync(join(dir, name), { recursive: true, force: true });
    symlinkSync(machine.elsewhere, join(dir, name));
    const { code, stderr } = await machine.run(["resume", uuid, "go on"]);
    expect([name, code, stderr]).toEqual([name, 64, expect.stringContaining("is a link")]);
    rmSync(join(dir, name));
  }
  expect(readdirSync(machine.elsewhere)).toEqual([]);
  await machine.ok(["resume", uuid, "go on"]);
});
