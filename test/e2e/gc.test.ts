import { expect, test } from "bun:test";
import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { z } from "zod";
import { Machine } from "./support/machine.ts";
import { says } from "./support/scenes.ts";
import { recordOf } from "./support/verdict.ts";

const Report = z.object({
  dry_run: z.boolean(),
  collected: z.array(z.object({ uuid: z.string(), pid: z.number(), why: z.string() })),
  runs: z.number(),
  kept: z.number(),
  needed: z.number(),
});

/** Runs it to its end; returns its UUID. */
async function ran(machine: Machine, ...args: string[]): Promise<string> {
  const { stdout, stderr } = await machine.run(["spawn", "go", "--output", "json", ...args]);
  if (stdout === "") throw new Error(stderr);
  return z.object({ uuid: z.string() }).parse(JSON.parse(stdout)).uuid;
}

test("rnix gc removes the runs that it named; later commands say that they were removed", async () => {
  await using machine = new Machine();
  machine.config({ retention_runs: 1 });
  await machine.play({ go: [says("done")] });
  const uuids = [await ran(machine), await ran(machine), await ran(machine, "--no-daemon")];

  const dry = Report.parse(await machine.json(["gc", "--dry-run", "--json"]));
  expect(dry).toMatchObject({ dry_run: true, runs: 2, kept: 1, needed: 0 });
  expect(dry.collected.map(({ uuid }) => uuid)).toEqual(uuids.slice(0, 2));
  expect(await machine.json(["ps", "-a", "--json"])).toHaveLength(3);

  const inside = await machine.run(["gc"], { env: { RNIX_UNIT: uuids[0] } });
  expect(inside).toMatchObject({ code: 1, stdout: "" });
  const done = await machine.run(["gc"]);
  expect(done.stdout).toContain("too many");
  expect(done.stdout).toContain("2 runs removed");
  expect((await machine.run(["gc"])).stdout).toStartWith("0 runs removed");

  expect(await machine.json(["ps", "-a", "--json"])).toMatchObject([{ uuid: uuids[2] }]);
  for (const command of ["show", "log", "steps", "strace", "wait", "resume"]) {
    for (const name of [uuids[0] ?? "", ...(command === "resume" ? [] : ["1"])]) {
      const { code, stderr } = await machine.run([command, name]);
      expect(`${command} ${name}: ${code} ${stderr}`).toContain(
        `${uuids[0]} (PID 1) was collected by gc at 2`,
      );
      expect(code).toBe(64);
    }
  }
  expect((await machine.run(["show", "99"])).stderr).toContain("No process with PID 99");
});

test("ps -a lists thousands of old runs, with and without their index, and a damaged one hides no other", async () => {
  await using machine = await Machine.playing({ go: [says("done")] });
  const uuid = await ran(machine);
  const steps = join(machine.project, ".rnix/data/steps");
  const record = recordOf(machine, uuid);
  for (let n = 2; n <= 2_500; n++) {
    const other = `019a0000-0000-7000-8000-${n.toString(16).padStart(12, "0")}`;
    mkdirSync(join(steps, other));
    writeFileSync(
      join(steps, other, "proc-info.json"),
      n === 7 ? "damaged" : JSON.stringify({ ...record, uuid: other, pid: n }),
    );
  }
  for (let round = 0; round < 2; round++) {
    const { stdout, stderr } = await machine.run(["ps", "-a", "--json"]);
    const pids = z.array(z.object({ pid: z.number() })).parse(JSON.parse(stdout));
    expect(pids).toHaveLength(2_499);
    expect(stderr).toContain("000000000007");
    expect(stderr.trim().split("\n")).toHaveLength(1);
    expect((await machine.run(["show", "2000", "--json"])).stdout).toContain(`"pid": 2000`);
    rmSync(join(machine.dataDir, "index"), { recursive: true });
  }
});
