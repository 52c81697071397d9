import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { z } from "zod";
import { ProcInfo } from "../../src/store/schema.ts";
import { version } from "../../src/version.ts";
import { isAlive } from "../support/is-alive.ts";
import { until } from "../support/until.ts";
import { Machine } from "./support/machine.ts";
import type { Result } from "./support/running.ts";
import { calls, says, scenes } from "./support/scenes.ts";
import { recordOf } from "./support/verdict.ts";

setDefaultTimeout(30_000);

const BUILD = resolve(import.meta.dir, "../../build.ts");
const OTHER = "9.9.9";

const folder = mkdtempSync(join(tmpdir(), "rnix-another-"));
const other = join(folder, "rnix");
beforeAll(async () => {
  const argv = [process.execPath, BUILD, "--version", OTHER, "--outfile", other];
  const built = Bun.spawn(argv, { stdout: "pipe", stderr: "pipe" });
  const [code, errors] = await Promise.all([built.exited, built.stderr.text()]);
  if (code !== 0) throw new Error(errors);
}, 60_000);
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** Everything that goes through the daemon. */
const COMMANDS = [["ps"], ["spawn", "say so"], ["wait", "1"], ["kill", "1"], ["daemon", "start"]];

test("a daemon of another version is named, with the way out, left alone, and gone when it is asked to", async () => {
  await using machine = new Machine();
  const hold = calls(["Bash", { command: "touch held; sleep 600" }]);
  const model = await machine.model(scenes({ "hold it": [hold], "say so": [says("so")] }));
  const ours = (...args: string[]): Promise<Result> => machine.run(args);
  const theirs = (...args: string[]): Promise<Result> => machine.run(args, { rnix: other });
  const runningVersion = async (): Promise<unknown> =>
    JSON.parse((await ours("daemon", "status", "--json")).stdout).version;

  const [, uuid = ""] = (await theirs("spawn", "hold it", "--detach")).stdout.trim().split(" ");
  await until(() => machine.has("held"), "the held call");
  const pid = Number(machine.daemonPid);
  for (const args of COMMANDS) {
    expect({ args, ...(await ours(...args)) }).toMatchObject({ args, ...refused(pid, OTHER, version) });
  }
  expect(await runningVersion()).toBe(OTHER);
  // Nothing was asked of it: what it runs goes on, and nothing has been added.
  expect(model.requests).toHaveLength(1);
  const live = z.array(ProcInfo).parse(JSON.parse((await theirs("ps", "--json")).stdout));
  expect(live.map(({ uuid, state }) => [uuid, state])).toEqual([[uuid, "running"]]);
  expect((await ours("spawn", "say so", "--no-daemon", "-q")).stdout).toBe("so\n");

  expect(await ours("daemon", "stop")).toMatchObject({ code: 0, stdout: "" });
  expect(isAlive(pid)).toBe(false);
  expect(machine.leftovers()).toEqual([]);
  expect(recordOf(machine, uuid)).toMatchObject({ exit_code: 75, exit_reason: "suspended" });

  // The next command starts one of its own, and now the other is the one that is told so.
  expect((await ours("spawn", "say so", "-q")).stdout).toBe("so\n");
  expect(await runningVersion()).toBe(version);
  const own = Number(machine.daemonPid);
  expect(await theirs("ps")).toMatchObject(refused(own, version, OTHER));
  expect(await theirs("daemon", "stop")).toMatchObject({ code: 0 });
  expect(isAlive(own)).toBe(false);
  expect((await theirs("spawn", "say so", "-q")).stdout).toBe("so\n");
});

/** How a command of one version ends where a daemon of another one runs. */
function refused(pid: number, running: string, own: string): Omit<Result, "ms"> {
  const named = `\\(PID ${pid}\\) is rnix ${running} \\(\\S+\\), this command is rnix ${own} \\(\\S+\\)\\.`;
  const way =
    "`rnix daemon stop` ends it and suspends what it runs; the next command starts one of its own version";
  return { code: 69, stdout: "", stderr: expect.stringMatching(new RegExp(`${named} ${way}`)) };
}
