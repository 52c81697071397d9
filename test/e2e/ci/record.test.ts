import { expect, test } from "bun:test";
import { chmodSync, cpSync, existsSync, mkdirSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { until } from "../../support/until.ts";
import { Machine } from "../support/machine.ts";
import { dropPrivileges } from "../support/unprivileged.ts";
import { Receipt, receiptOf } from "../support/verdict.ts";

const SPAWN = ["spawn", "--provider", "replay", "--model", "script.yaml", "--output", "json"];
const SCRIPT = `responses:
  - tool_calls: [{ name: Bash, input: { command: echo hello } }]
  - text: done
`;

test.each([
  ["in the command", ["--no-daemon"]],
  ["in the daemon", []],
])(
  "--record, %s: the record is in this folder alone, and is read on another machine",
  async (_where, flags) => {
    await using machine = new Machine();
    machine.write("script.yaml", SCRIPT);
    const spawned = await machine.run([...SPAWN, ...flags, "--record", "artifact", "hello there"]);
    const { uuid, exit_code } = receiptOf(spawned);
    expect(exit_code).toBe(0);
    expect(readdirSync(join(machine.project, "artifact/steps"))).toEqual([uuid]);
    expect(machine.has(".rnix/data")).toBe(false);

    // Here the record is the user's own.
    for (const args of [["log"], ["log", uuid], ["steps"], ["show"], ["strace"]]) {
      const read = await machine.run([...args, "--record", "artifact"]);
      expect([args, read.code, read.stdout + read.stderr]).toEqual([
        args,
        0,
        expect.not.stringContaining("foreign"),
      ]);
    }

    await using other = new Machine();
    cpSync(join(machine.project, "artifact"), join(other.project, "kept"), { recursive: true });
    const read = async (...args: string[]) => (await other.run([...args, "--record", "kept"])).stdout;
    expect(await read("log")).toContain("echo hello");
    expect(await read("log", uuid.slice(0, 10))).toContain("done");
    expect(JSON.parse(await read("show", "--json"))).toMatchObject({ uuid, intent: "hello there" });
    expect(JSON.parse(await read("steps", "--json"))).toHaveLength(2);
    expect(await read("strace")).toContain("Open");
    expect(await read("show")).toContain("foreign: your Rnix did not write it");
    expect(other.daemonPid).toBeNull();
    expect(existsSync(other.dataDir)).toBe(false);
    expect(await other.run(["log", "--record", "."])).toMatchObject({
      code: 64,
      stderr: expect.stringContaining("holds no run"),
    });
  },
);

test("--record works in a checkout that can't be written, and with a HOME that can't", async () => {
  await using machine = new Machine();
  machine.write("script.yaml", SCRIPT);
  const artifact = join(machine.elsewhere, "artifact");
  mkdirSync(machine.elsewhere, { recursive: true });
  dropPrivileges(machine);
  chmodSync(machine.project, 0o555);
  chmodSync(machine.home, 0o555);
  try {
    const { code, stdout } = await machine.run([...SPAWN, "--no-daemon", "--record", artifact, "x"]);
    expect({ code, result: JSON.parse(stdout).result }).toEqual({ code: 0, result: "done" });
  } finally {
    chmodSync(machine.project, 0o755);
    chmodSync(machine.home, 0o755);
  }
  expect(readdirSync(machine.project)).toEqual(["script.yaml"]);
});

test("a run that was suspended resumes from its record, by the command that its step has printed", async () => {
  await using machine = new Machine();
  machine.write(
    "script.yaml",
    `responses:\n  - tool_calls: [{ name: Bash, input: { command: touch held; sleep 60 } }]\n  - text: done\n`,
  );
  const command = machine.start([...SPAWN, "--no-daemon", "--record", "artifact", "x"], { env: { CI: "1" } });
  await until(() => machine.has("held"), "the held program");
  command.signal("SIGTERM");
  const { stdout, stderr } = await command.done;
  const { uuid, exit_code } = Receipt.parse(JSON.parse(stdout));
  expect(exit_code).toBe(75);
  const [, printed = ""] = /to resume it: rnix (resume .*)$/m.exec(stderr) ?? [];
  expect(printed).toContain("--record artifact");
  machine.write(
    "script.yaml",
    "responses:\n  - tool_calls: [{ name: Bash, input: { command: 'true' } }]\n  - text: done\n",
  );
  const resumed = await machine.run([...printed.split(" "), "--output", "json"]);
  expect(JSON.parse(resumed.stdout)).toMatchObject({ uuid, exit_code: 0, result: "done" });
});
