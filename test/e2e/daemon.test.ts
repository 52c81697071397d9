import { describe, expect, test } from "bun:test";
import { lstatSync, mkdirSync, readdirSync, rmSync, statSync } from "node:fs";
import { dirname, join } from "node:path";
import { PROTOCOL } from "../../src/protocol/frame.ts";
import { version } from "../../src/version.ts";
import { until } from "../support/until.ts";
import { binary } from "./support/binary.ts";
import { processesOf } from "./support/leftovers.ts";
import { Machine } from "./support/machine.ts";
import { Running } from "./support/running.ts";
import { detach, listed } from "./support/runs.ts";
import { bash, says } from "./support/scenes.ts";
import { Receipt, receiptOf, recordOf } from "./support/verdict.ts";

/** Runs until it is ended. */
const HOLD = bash("touch held; sleep 600");

test("eight commands at once start one daemon, which serves them all", async () => {
  await using machine = await Machine.playing({ "say so": [says("so")] });
  const commands = Array.from({ length: 8 }, () => machine.start(["spawn", "say so", "--output", "json"]));
  const ended = await Promise.all(commands.map(({ done }) => done));
  const receipts = ended.map(({ stdout }) => Receipt.parse(JSON.parse(stdout)));
  expect(receipts.map(({ exit_code, result }) => [exit_code, result])).toEqual(Array(8).fill([0, "so"]));
  expect(receipts.map(({ pid }) => pid).toSorted()).toEqual([1, 2, 3, 4, 5, 6, 7, 8]);
  await until(() => machine.strays().length === 0, "the end of the daemons that came second");
  expect(logLines(machine, /listening on/)).toHaveLength(1);
});

test("a data folder that is removed ends the daemon with the reason, and nothing keeps running", async () => {
  await using machine = await Machine.playing({ "hold on": [HOLD], "say so": [says("so")] });
  const attached = machine.start(["spawn", "hold on"]);
  await until(() => machine.has("held"), "the program");
  rmSync(machine.dataDir, { recursive: true });
  expect((await attached.done).code).toBe(75);
  await until(() => processesOf(machine.root).length === 0, "the end of the daemon");
  expect(logLines(machine, /suspending all runs: .* was removed while rnix ran/)).toHaveLength(1);
  expect((await machine.ok(["spawn", "say so", "--quiet"])).stdout).toContain("so");
});

describe("after kill -9 of the daemon", () => {
  const BEGIN = { text: "I look.", ...bash("echo looked") };
  const NASTY = bash(
    "setsid sleep 601 & env -i setsid sleep 602 & (trap '' TERM; exec sleep 603) & sleep 604",
  );

  test("the next start ends its programs, and shows its runs as suspended", async () => {
    await using machine = await Machine.playing({ "build it": [BEGIN, NASTY], "say so": [says("so")] });
    const attached = machine.start(["spawn", "build it", "--output", "json"]);
    await until(() => sleeping(machine) === 4, "four programs");
    const killed = machine.killDaemon();

    const lost = await attached.done;
    expect(lost).toMatchObject({ code: 69 });
    const receipt = receiptOf(lost);
    expect(receipt).toMatchObject({ pid: 1, exit_code: 69, error: { code: "UNAVAILABLE" } });
    for (const text of [receipt.error?.message, lost.stderr]) expect(text).toContain("`rnix resume 1`");
    const { uuid } = receipt;
    expect(sleeping(machine)).toBe(4);
    expect(machine.has(machine.socket)).toBe(true);
    expect((await machine.run(["daemon", "status"])).code).toBe(69);

    const doctor = await machine.run(["doctor"]);
    expect(doctor.stdout).toContain("sleep 604");
    expect(machine.daemonPid).not.toBe(killed);
    await machine.until(["daemon", "logs"], /ended what a dead rnix left running: .*sleep 604/);
    expect(sleeping(machine)).toBe(0);

    const [info] = await listed(machine);
    expect(info).toMatchObject({
      uuid,
      pid: 1,
      state: "suspended",
      exit_code: 75,
      exit_reason: "suspended",
      steps: 2,
      tokens_used: 30,
      tool_calls: 2,
      error: { code: "CLOSED", message: expect.stringContaining("kill -9") },
    });
    expect(await listed(machine, [])).toEqual([]);
    expect((await machine.run(["ps", "-a"])).stdout).toMatch(/\n1 +suspended/);
    const log = (await machine.run(["log", "1"])).stdout;
    expect(log).toMatch(/I look\.[\s\S]*Bash echo looked\n +looked\n[\s\S]*sleep 604/);
    expect((await machine.run(["steps", "1", "--json"])).stdout).toContain('"step": 1');
    expect((await machine.run(["strace", "1"])).stdout).toContain("/dev/shell");
    const waited = await machine.run(["wait", uuid]);
    expect(waited).toMatchObject({ code: 75 });
    expect(waited.stderr).toContain("kill -9");
    const next = await machine.run(["spawn", "say so", "--output", "json"]);
    expect(JSON.parse(next.stdout)).toMatchObject({ exit_code: 0 });
    expect(JSON.parse(next.stdout).pid).toBeGreaterThan(1);
  });

  test("or of a --no-daemon command, the next start ends its programs", async () => {
    await using machine = await Machine.playing({ "build it": [BEGIN, NASTY] });
    const command = machine.start(["spawn", "build it", "--no-daemon", "-q"]);
    await until(() => sleeping(machine) === 4, "four programs");
    command.signal("SIGKILL");
    await command.done;
    expect(sleeping(machine)).toBe(4);
    expect(await listed(machine)).toMatchObject([{ exit_reason: "suspended", steps: 2 }]);
    await machine.ok(["daemon", "start"]);
    await until(() => sleeping(machine) === 0, "the end of what was left");
  });

  test("the first command finds a dead socket and is served by a new daemon", async () => {
    await using machine = await Machine.playing({ "say so": [says("so")] });
    for (let round = 0; round < 2; round++) {
      expect((await machine.run(["spawn", "say so", "-q"])).stdout).toBe("so\n");
      await machine.endDaemon();
    }
    expect((await machine.run(["spawn", "say so", "-q"])).stdout).toBe("so\n");
    // Those of the dead are looked for behind the open socket.
    await until(
      () => readdirSync(join(machine.dataDir, "kernels")).length === 1,
      "the end of the dead kernels",
    );
  });
});

test("a plain file at the path of the socket is replaced", async () => {
  await using machine = await Machine.playing({ "say so": [says("so")] });
  mkdirSync(dirname(machine.socket), { mode: 0o700 });
  machine.write(machine.socket, "");
  machine.write(machine.socket.replace(/\.sock$/, ".pid"), "1\n");
  expect((await machine.run(["spawn", "say so", "-q"])).stdout).toBe("so\n");
  expect(machine.daemonPid).not.toBe(1);
});

describe("the idle stop", () => {
  const SHORT = { daemon_idle_stop: "300ms", daemon_idle_check: "50ms" };

  test("comes after the idle time and leaves nothing; the next command starts another daemon", async () => {
    await using machine = new Machine();
    machine.config(SHORT);
    await machine.play({ "say so": [says("so")] });
    for (let round = 0; round < 2; round++) {
      expect((await machine.run(["spawn", "say so", "-q"])).stdout).toBe("so\n");
      await idleStop(machine);
    }
    // One may have been idle for too long before its command came.
    expect(logLines(machine, /nothing to do: stopping/).length).toBeGreaterThanOrEqual(2);
  });

  test("waits for a detached run, also while it is paused", async () => {
    await using machine = new Machine();
    machine.config(SHORT);
    const slow = "touch held; until test -e go; do sleep 0.02; done; sleep 1; touch slept";
    await machine.play({ "take your time": [bash(slow), says("done")] });
    const { uuid } = await detach(machine, "take your time");
    await machine.held();
    // A daemon that was idle before its first command may have stopped.
    const daemon = machine.daemonPid;
    await machine.ok(["pause", uuid]);
    machine.write("go", "");
    // Longer than the idle time: a daemon that did not count it would have stopped.
    await until(() => machine.has("slept"), "a second");
    await machine.ok(["continue", uuid]);
    await idleStop(machine);
    expect(recordOf(machine, uuid)).toMatchObject({ exit_code: 0, result: "done" });
    // By this daemon, which has no successor.
    expect(logLines(machine, /listening on/).at(-1)).toContain(`[${daemon}]`);
  });
});

describe("daemon stop", () => {
  for (const [now, expected] of [
    [false, { exit_code: 75, exit_reason: "suspended", state: "suspended" }],
    [true, { exit_code: 137, exit_reason: "killed", state: "dead" }],
  ] as const) {
    test(`${now ? "--now kills" : "suspends"} what runs, followed or not, and leaves no program`, async () => {
      await using machine = new Machine();
      const model = await machine.play({
        "hold it": [HOLD],
        "think about it": [{ fault: { kind: "hang" } }],
      });
      // Of two commands that start a daemon, the second's may still be starting when the first is asked to stop.
      await machine.run(["daemon", "start"]);
      const followed = machine.start(["spawn", "hold it", "--output", "json"]);
      const { uuid } = await detach(machine, "think about it");
      await Promise.all([machine.held(), model.arrived(2)]);
      const waiting = machine.start(["wait", uuid]);
      const log = machine.start(["log", uuid, "-f"]);
      // Including this command. A command after the daemon has stopped starts another.
      await machine.until(["daemon", "status", "--json"], /"connections":4,/);
      const paused = await machine.run(["pause", uuid]);
      expect(paused.code).toBe(0);
      await machine.ok(["continue", uuid]);

      const stopped = await machine.run(["daemon", "stop", ...(now ? ["--now"] : [])]);
      expect(stopped).toMatchObject({ code: 0, stdout: "" });
      expect(stopped.stderr).toContain("has stopped");
      // By their PIDs: one that is just ending has no arguments any more.
      const clients = [followed, waiting, log].map(({ pid }) => `process ${pid}:`);
      const left = machine.leftovers().filter((one) => !clients.some((client) => one.startsWith(client)));
      expect(left).toEqual([]);

      const end = await followed.done;
      expect(end.code).toBe(expected.exit_code);
      const receipt = receiptOf(end);
      expect(receipt).toMatchObject({ exit_code: expected.exit_code, exit_reason: expected.exit_reason });
      for (const one of [receipt.uuid, uuid]) expect(recordOf(machine, one)).toMatchObject(expected);
      expect((await waiting.done).code).toBe(expected.exit_code);
      expect((await log.done).code).toBe(0);
    });
  }

  test("without a daemon succeeds and starts none", async () => {
    await using machine = new Machine();
    expect(await machine.run(["daemon", "stop"])).toMatchObject({ code: 0 });
    expect(await machine.run(["daemon", "status", "--json"])).toMatchObject({
      code: 69,
      stdout: '{"running":false}\n',
    });
    expect(machine.leftovers()).toEqual([]);
  });
});

test("daemon status, logs and start print the daemon's state", async () => {
  await using machine = new Machine();
  const started = await machine.run(["daemon", "start"]);
  expect(started).toMatchObject({ code: 0, stdout: "" });
  expect(started.stderr).toContain(`PID ${machine.daemonPid}`);
  const again = await machine.run(["daemon", "start"]);
  expect(again.stderr).toBe(started.stderr);

  const status = await machine.run(["daemon", "status", "--json"]);
  expect(JSON.parse(status.stdout)).toEqual({
    running: true,
    version,
    protocol: PROTOCOL,
    build: expect.any(String),
    pid: machine.daemonPid,
    started_at_ms: expect.any(Number),
    uptime_ms: expect.any(Number),
    socket: machine.socket,
    log: join(machine.dataDir, "daemon.log"),
    processes: 0,
    connections: 1,
    rss_bytes: expect.any(Number),
    strays: [],
    loop_delay_ms: { p50: expect.any(Number), max: expect.any(Number) },
    init: [],
    init_problems: [],
  });
  const logs = await machine.run(["daemon", "logs", "-n", "1"]);
  expect(logs.stdout).toMatch(/^\S+ \[\d+\] info daemon: listening on \S+\n$/);
  await machine.ok(["daemon", "stop"]);
  const later = await machine.run(["daemon", "logs"]);
  expect(later.stdout).toMatch(/listening on[\s\S]*stopped\n$/);
  expect(machine.leftovers()).toEqual([]);
});

test("daemon logs prints each run and its end, from the level that RNIX_LOG had when the daemon started", async () => {
  await using machine = await Machine.playing({ "say so": [says("so")] });
  const run = async (args: string[]): Promise<string> => {
    return receiptOf(await machine.run(["spawn", "say so", ...args, "--output", "json"])).uuid;
  };
  const lines = async () => {
    const { stdout } = await machine.run(["daemon", "logs"]);
    return Array.from(stdout.matchAll(/\w+ PID \d+: (?:spawned|step|ended).*/g), ([line]) => line);
  };
  const entries = (pid: number, uuid: string, end: string, steps: string[] = []) => [
    `info PID ${pid}: spawned ${uuid}, agent default on openai/m: say so`,
    ...steps.map((step) => `debug PID ${pid}: ${step}`),
    `info PID ${pid}: ended with ${end}`,
  ];
  const expected = [
    ...entries(1, await run([]), "0, completed"),
    ...entries(
      2,
      await run(["--check", "false"]),
      "1, check_failed: The agent finished, but the check `false` ended with 1 in attempt 3.",
    ),
  ];
  expect(await lines()).toEqual(expected);
  await machine.run(["daemon", "stop"]);
  machine.env.RNIX_LOG = "debug";
  expected.push(...entries(3, await run([]), "0, completed", ["step 1/100"]));
  await machine.run(["daemon", "stop"]);
  machine.env.RNIX_LOG = "warn";
  await run([]);
  expect(await lines()).toEqual(expected);
});

describe("daemon start --foreground", () => {
  for (const [signals, expected] of [
    [["SIGTERM"], { exit_code: 75, exit_reason: "suspended" }],
    [["SIGINT"], { exit_code: 75, exit_reason: "suspended" }],
    [["SIGHUP"], { exit_code: 75, exit_reason: "suspended" }],
  ] as const) {
    test(`ends with 0 on ${signals}, with its runs suspended and nothing left`, async () => {
      await using machine = await Machine.playing({ "hold it": [HOLD] });
      const daemon = machine.start(["daemon", "start", "--foreground"]);
      await daemon.stderr.has(/listening on/);
      expect(machine.daemonPid).toBe(daemon.pid);
      const second = await machine.run(["daemon", "start", "--foreground"]);
      expect(second.code).toBe(0);
      expect(second.stderr).toContain("another daemon runs already");

      const { uuid } = await detach(machine, "hold it");
      await machine.held();
      for (const signal of signals) daemon.signal(signal);
      const { code, stderr } = await daemon.done;
      expect(code).toBe(0);
      expect(stderr).toContain("stopped");
      expect(machine.leftovers()).toEqual([]);
      expect(recordOf(machine, uuid)).toMatchObject(expected);
    });
  }

  test("kills what runs on the second signal", async () => {
    await using machine = new Machine();
    // It ends by the second signal, or not before this test does.
    machine.config({ grace: "5m" });
    await machine.play({
      "hold it": [bash("trap 'touch asked' TERM; touch held; while :; do sleep 0.1; done")],
    });
    const daemon = machine.start(["daemon", "start", "--foreground"]);
    await daemon.stderr.has(/listening on/);
    await detach(machine, "hold it");
    await machine.held();
    daemon.signal("SIGTERM");
    await until(() => machine.has("asked"), "the asked program's answer");
    daemon.signal("SIGTERM");
    expect((await daemon.done).code).toBe(0);
    expect(machine.leftovers()).toEqual([]);
  });
});

describe("no other user can read the daemon's files or reach its socket", () => {
  for (const umask of ["000", "022", "077"]) {
    test(`with umask ${umask}`, async () => {
      await using machine = await Machine.playing({
        "say so": [bash("umask; seq 40000"), says("so")],
      });
      const argv = ["sh", "-c", `umask ${umask}; exec "$0" "$@"`, binary(), "spawn", "say so", "-q"];
      const ran = new Running({ argv, cwd: machine.project, env: machine.env });
      expect(await ran.done).toMatchObject({ code: 0, stdout: "so\n" });
      const folders = [dirname(machine.socket), machine.dataDir, join(machine.project, ".rnix/data")];
      // A link has no mode of its own: others reach it only through its folder.
      const files = folders.flatMap(below).filter((path) => !lstatSync(path).isSymbolicLink());
      const open = files.filter((path) => (statSync(path).mode & 0o077) !== 0);
      expect(open).toEqual([]);
      expect(statSync(machine.socket).mode & 0o777).toBe(0o600);
    });
  }
});

/** The folder and everything in it. */
function below(folder: string): string[] {
  const names = readdirSync(folder, { recursive: true, encoding: "utf8" });
  return [folder, ...names.map((name) => join(folder, name))];
}

/** The files are read after the daemon has stopped writing them. */
async function idleStop(machine: Machine): Promise<void> {
  await until(() => processesOf(machine.root).length === 0, "the idle stop");
  expect(machine.leftovers()).toEqual([]);
}

function sleeping(machine: Machine): number {
  return processesOf(machine.root).filter(({ command }) => command.startsWith("sleep ")).length;
}

function logLines(machine: Machine, pattern: RegExp): string[] {
  const lines = machine.read(join(machine.dataDir, "daemon.log")).split("\n");
  return lines.filter((line) => pattern.test(line));
}
