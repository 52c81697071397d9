import { describe, expect, test } from "bun:test";
import { chmodSync, readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { Machine } from "../support/machine.ts";
import { dropPrivileges } from "../support/unprivileged.ts";
import { Receipt, receiptOf } from "../support/verdict.ts";

const AGENT = "name: reviewer\ndescription: x\n";
const SPAWN = ["spawn", "--no-daemon", "--no-stdin", "--output", "json", "--agent", "reviewer", "do it"];

/** A clone with an agent of the project. */
function clone(): Machine {
  const machine = new Machine({ git: true });
  machine.agent("reviewer", AGENT, "Review it.\n");
  machine.commit("agent");
  machine.env.RNIX_PROVIDER = "replay";
  machine.env.RNIX_MODEL = machine.write(
    join(machine.elsewhere, "script.yaml"),
    "responses:\n  - text: done\n",
  );
  return machine;
}

describe("a checkout that can't be written", () => {
  test.each([[[]], [["--base", "main"]]])(
    "works with %j, and a note says where the record is",
    async (flags) => {
      await using machine = clone();
      const uid = dropPrivileges(machine);
      chmodSync(machine.project, 0o555);
      const { stdout, stderr } = await machine.run([...SPAWN, ...flags]);
      const { exit_code, uuid, notices } = Receipt.parse(JSON.parse(stdout));
      expect({ exit_code, stderr }).toMatchObject({ exit_code: 0 });
      expect(notices).toContain(
        `${machine.project} can't be written: the record of the run is in ${machine.dataDir}. --record DIR keeps it elsewhere`,
      );
      expect(machine.has(".rnix")).toBe(false);
      // Later commands find it.
      expect((await machine.run(["log", uuid])).stdout).toContain("done");
      expect((await machine.run(["ps", "-a"])).stdout).toContain("done");
      chmodSync(machine.project, 0o755);
      expect(uid).not.toBe(0);
    },
  );

  test("needs neither a note nor another folder with --record", async () => {
    await using machine = clone();
    dropPrivileges(machine);
    chmodSync(machine.project, 0o555);
    const record = join(machine.elsewhere, "record");
    const { stdout } = await machine.run([...SPAWN, "--record", record]);
    expect(Receipt.parse(JSON.parse(stdout))).toMatchObject({ exit_code: 0 });
    expect(stdout).not.toContain("can't be written");
    expect((await machine.run(["log", "--record", record])).stdout).toContain("done");
    chmodSync(machine.project, 0o755);
  });
});

test("a checkout that all users may write, as GitLab's runner makes it, is a project with CI set", async () => {
  await using machine = clone();
  chmodSync(machine.project, 0o777);
  const env = { CI: "true" };
  const { stdout } = await machine.run(SPAWN, { env });
  expect(Receipt.parse(JSON.parse(stdout))).toMatchObject({ exit_code: 0, agent: "reviewer" });
  const based = await machine.run([...SPAWN, "--base", "main"], { env });
  expect(receiptOf(based)).toMatchObject({ exit_code: 0, base: { ref: "main" } });
  expect((await machine.run(SPAWN)).code).toBe(64);
});

test("nothing but PATH is needed, and the data is in the temporary folder of the system", async () => {
  await using machine = clone();
  const uid = dropPrivileges(machine);
  const env = Object.fromEntries(Object.keys(machine.env).map((name) => [name, undefined]));
  const { PATH = "", RNIX_PROVIDER, RNIX_MODEL } = machine.env;
  const { stdout, stderr, code } = await machine.run(SPAWN, {
    env: { ...env, PATH, RNIX_PROVIDER, RNIX_MODEL },
  });
  const data = `/tmp/rnix-data-${uid}`;
  expect({ code, stderr }).toMatchObject({ code: 0 });
  expect(Receipt.parse(JSON.parse(stdout)).notices.join()).toContain(data);
  expect(readdirSync(join(machine.project, ".rnix/data/steps"))).toHaveLength(1);
  rmSync(data, { recursive: true, force: true });
});
