import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { z } from "zod";
import { ProcInfo } from "../../src/store/runs/schema.ts";
import { version } from "../../src/version.ts";
import { isAlive } from "../support/is-alive.ts";
import { until } from "../support/until.ts";
import { writeKeys } from "./support/keys-file.ts";
import { Machine } from "./support/machine.ts";
import { toolResults } from "./support/requests.ts";
import type { Result } from "./support/running.ts";
import { bash, calls, says } from "./support/scenes.ts";
import { recordOf } from "./support/verdict.ts";

const BUILD = resolve(import.meta.dir, "../../build.ts");
const OTHER = "9.9.9";

const folder = mkdtempSync(join(tmpdir(), "rnix-another-"));
const other = join(folder, "rnix");
beforeAll(async () => {
  const argv = [process.execPath, BUILD, "--version", OTHER, "--outfile", other];
  const built = Bun.spawn(argv, { stdout: "pipe", stderr: "pipe" });
  const [code, errors] = await Promise.all([built.exited, built.stderr.text()]);
  if (code !== 0) throw new Error(errors);
}, 120_000);
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** Everything that goes through the daemon. */
const COMMANDS = [["ps"], ["spawn", "say so"], ["wait", "1"], ["kill", "1"], ["daemon", "start"]];

test("commands refuse a daemon of another version that has runs, and say how to stop it; one without is replaced", async () => {
  await using machine = new Machine();
  const hold = bash("touch held; sleep 600");
  const model = await machine.play({ "hold it": [hold], "say so": [says("so")] });
  const ours = (...args: string[]): Promise<Result> => machine.run(args);
  const theirs = (...args: string[]): Promise<Result> => machine.run(args, { rnix: other });
  const runningVersion = async (): Promise<unknown> =>
    JSON.parse((await ours("daemon", "status", "--json")).stdout).version;

  const [, uuid = ""] = (await theirs("spawn", "hold it", "--detach")).stdout.trim().split(" ");
  await machine.held();
  const pid = Number(machine.daemonPid);
  for (const args of COMMANDS) {
    expect({ args, ...(await ours(...args)) }).toMatchObject({ args, ...refused(pid, OTHER, version) });
  }
  expect(await runningVersion()).toBe(OTHER);
  // No command reached it: its run continues, and no other was added.
  expect(model.requests).toHaveLength(1);
  const live = z.array(ProcInfo).parse(JSON.parse((await theirs("ps", "--json")).stdout));
  expect(live.map(({ uuid, state }) => [uuid, state])).toEqual([[uuid, "running"]]);
  expect((await ours("spawn", "say so", "--no-daemon", "-q")).stdout).toBe("so\n");

  expect(await ours("daemon", "stop")).toMatchObject({ code: 0, stdout: "" });
  expect(isAlive(pid)).toBe(false);
  expect(machine.leftovers()).toEqual([]);
  expect(recordOf(machine, uuid)).toMatchObject({ exit_code: 75, exit_reason: "suspended" });

  // The next command starts its own daemon. It is idle then, so a command of the other version replaces it.
  expect((await ours("spawn", "say so", "-q")).stdout).toBe("so\n");
  expect(await runningVersion()).toBe(version);
  const own = Number(machine.daemonPid);
  expect(await theirs("spawn", "say so", "-q")).toMatchObject({ code: 0, stdout: "so\n" });
  expect(isAlive(own)).toBe(false);
  expect(await runningVersion()).toBe(OTHER);
  // What a run starts leaves the daemon alone, whatever its version.
  const inside = await machine.run(["ps"], { env: { RNIX_UNIT: "1" } });
  expect(inside).toMatchObject(refused(Number(machine.daemonPid), OTHER, version));
});

describe("the daemon of another version is replaced", () => {
  /** Two runs of theirs: one at work, and one that a person has suspended. */
  async function atWork(machine: Machine): Promise<{ pid: number; held: string; suspended: string }> {
    const hold = bash("echo once >> lines; touch held; sleep 600");
    await machine.play({ "hold it": [hold, says("went on")], "wait for me": [{ fault: { kind: "hang" } }] });
    writeKeys(machine);
    const spawn = async (intent: string): Promise<string> => {
      const { stdout } = await machine.run(["spawn", intent, "--detach"], { rnix: other });
      return stdout.trim().split(" ")[1] ?? "";
    };
    const suspended = await spawn("wait for me");
    await machine.run(["suspend", suspended], { rnix: other });
    const held = await spawn("hold it");
    await machine.held();
    return { pid: Number(machine.daemonPid), held, suspended };
  }

  async function expectHandedOver(
    machine: Machine,
    before: Awaited<ReturnType<typeof atWork>>,
  ): Promise<void> {
    const { held, suspended, pid } = before;
    expect(isAlive(pid)).toBe(false);
    await until(() => recordOf(machine, held).exit_reason === "completed", "the end of what goes on");
    expect(recordOf(machine, held)).toMatchObject({ result: "went on", versions: { rnix: version } });
    expect(machine.read("lines")).toBe("once\n");
    expect(recordOf(machine, suspended)).toMatchObject({ state: "suspended", suspended: { cause: "asked" } });
    expect((await machine.json(["daemon", "status", "--json"])).version).toBe(version);
  }

  test("by rnix daemon restart: its runs resume in the new one, except those that a person suspended", async () => {
    await using machine = new Machine();
    const before = await atWork(machine);
    expect(await machine.run(["daemon", "restart"])).toMatchObject({ code: 0, stdout: "" });
    await expectHandedOver(machine, before);
  });

  test("after a running call has finished: its result is recorded, and the new daemon makes the next call", async () => {
    await using machine = new Machine();
    machine.config({ drain: "1m" });
    const long = "echo once >> lines; touch held; until test -e go; do sleep 0.02; done; echo whole";
    const model = await machine.play({
      "hold it": [
        calls(["Bash", { command: long }], ["Bash", { command: "echo then >> lines" }]),
        says("went on"),
      ],
    });
    writeKeys(machine);
    const spawned = await machine.run(["spawn", "hold it", "--detach"], { rnix: other });
    const uuid = spawned.stdout.trim().split(" ")[1] ?? "";
    await machine.held();
    const pid = Number(machine.daemonPid);
    const restarting = machine.start(["daemon", "restart"]);
    await until(() => restarting.stderr.text.includes("waiting up to"), "what is waited for");
    expect(await machine.run(["spawn", "hold it"], { rnix: other })).toMatchObject({ code: 69 });
    expect(machine.read("lines")).toBe("once\n");
    machine.write("go", "");
    expect(await restarting.done).toMatchObject({ code: 0 });
    expect(isAlive(pid)).toBe(false);
    await until(() => recordOf(machine, uuid).exit_reason === "completed", "the end of what goes on");
    expect(recordOf(machine, uuid)).toMatchObject({ result: "went on", versions: { rnix: version } });
    expect(machine.read("lines")).toBe("once\nthen\n");
    const [last] = model.requests.slice(-1);
    if (!last) throw new Error("the model was not asked");
    const results = toolResults(last);
    expect(results).toHaveLength(2);
    expect(results[0]).toContain("whole");
  });

  test("by a yes at the terminal of any command; a no leaves it running", async () => {
    await using machine = new Machine();
    const before = await atWork(machine);
    const refusing = machine.startAtTerminal(["ps"]);
    await until(() => refusing.screen.includes("[y/N]"), "the question");
    refusing.type("n\r");
    expect((await refusing.done).code).toBe(69);
    expect(isAlive(before.pid)).toBe(true);
    const agreeing = machine.startAtTerminal(["ps"]);
    await until(() => agreeing.screen.includes("[y/N]"), "the question");
    agreeing.type("y\r");
    expect((await agreeing.done).code).toBe(0);
    await expectHandedOver(machine, before);
  });

  test("by a yes in a conversation, whose line takes keys again", async () => {
    await using machine = new Machine();
    const before = await atWork(machine);
    const chat = machine.startAtTerminal(["chat"]);
    await until(() => chat.screen.includes("[y/N]"), "the question");
    chat.type("y\r");
    await until(() => !isAlive(before.pid), "the end of the other daemon");
    await expectHandedOver(machine, before);
    const after = (): string => chat.screen.split("[y/N]").pop() ?? "";
    await until(() => after().includes("a message"), "the input line");
    chat.type("\x04");
    expect((await chat.done).code).toBe(0);
  });
});

/** How a command of one version ends where a daemon of another one runs. */
function refused(pid: number, running: string, own: string): Omit<Result, "ms"> {
  const named = `\\(PID ${pid}\\) is rnix ${running} \\(\\S+\\), this command is rnix ${own} \\(\\S+\\)\\.`;
  const way =
    "`rnix daemon restart` replaces it with this version and resumes its runs; `rnix daemon stop` ends it";
  return { code: 69, stdout: "", stderr: expect.stringMatching(new RegExp(`${named} ${way}`)) };
}
