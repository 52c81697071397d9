import { describe, expect, test } from "bun:test";
import { isAlive } from "../support/is-alive.ts";
import { until } from "../support/until.ts";
import { processesOf } from "./support/leftovers.ts";
import { Machine } from "./support/machine.ts";
import { listed } from "./support/runs.ts";
import { bash, says } from "./support/scenes.ts";
import { Receipt, recordOf } from "./support/verdict.ts";

const CTRL_C = "\x03";
/** Runs until it is ended, and leaves a file when it has started. */
const HOLD = bash("touch held; sleep 600");
/** The same, and TERM does not end it. A shell answers when the program it waits for has ended: that is one of a moment. */
const DEAF = bash("trap 'touch asked' TERM; touch held; while :; do sleep 0.1; done");
/** What is deaf waits for the second signal, however late that comes. */
const PATIENT = { grace: "5m" };

describe("Ctrl-C on the command", () => {
  const ENDS = {
    once: { exit_code: 75, exit_reason: "suspended", state: "suspended" },
    twice: { exit_code: 130, exit_reason: "interrupted", state: "dead" },
  };
  for (const [times, expected] of Object.entries(ENDS)) {
    for (const inside of [[], ["--no-daemon"]]) {
      test(`${times} ends the run with ${expected.exit_code}, and leaves nothing running ${inside.join("")}`, async () => {
        await using machine = new Machine();
        if (times === "twice") machine.config(PATIENT);
        await machine.play({ "hold it": [times === "twice" ? DEAF : HOLD] });
        const command = machine.startAtTerminal(["spawn", "hold it", ...inside]);
        await machine.held();
        command.type(CTRL_C);
        if (times === "twice") {
          await until(() => machine.has("asked"), "the asked program's answer");
          command.type(CTRL_C);
        }
        const { screen, code } = await command.done;
        expect(code).toBe(expected.exit_code);
        expect(inside.length > 0 ? machine.leftovers() : machine.strays()).toEqual([]);
        const [info] = await listed(machine);
        expect(info).toMatchObject({ ...expected, steps: 1 });
        // How to resume it.
        if (times === "once") expect(screen).toContain(info?.uuid ?? "?");
      });
    }
  }

  test("while the model is silent suspends at once, and records the text so far", async () => {
    await using machine = await Machine.playing({
      "think about it": [{ text: "I think that", chunks: 2, fault: { kind: "hang_midway" } }],
    });
    const command = machine.startAtTerminal(["spawn", "think about it"]);
    await command.shows(/I thi/);
    command.type(CTRL_C);
    expect((await command.done).code).toBe(75);
    expect((await listed(machine))[0]).toMatchObject({ exit_reason: "suspended" });
  });

  test("before the run exists ends the command, and leaves no run", async () => {
    await using machine = await Machine.playing({ "hold it": [HOLD] });
    // It waits for the intent that never comes.
    const command = machine.startAtTerminal(["spawn", "-"]);
    await command.shows(/type the intent/);
    command.type(CTRL_C);
    expect((await command.done).code).toBe(130);
    expect(machine.leftovers()).toEqual([]);
  });
});

describe("a signal to the command", () => {
  for (const [signal, inside] of [
    ["SIGTERM", []],
    ["SIGINT", []],
    ["SIGTERM", ["--no-daemon"]],
    ["SIGHUP", ["--no-daemon"]],
  ] as const) {
    test(`${signal} suspends the run ${inside.length ? "of --no-daemon" : ""}: 75, and the receipt says so`, async () => {
      await using machine = await Machine.playing({ "hold it": [HOLD] });
      const command = machine.start(["spawn", "hold it", "--output", "json", ...inside]);
      await machine.held();
      command.signal(signal);
      const { code, stdout } = await command.done;
      expect(code).toBe(75);
      const receipt = Receipt.parse(JSON.parse(stdout));
      expect(receipt).toMatchObject({ exit_code: 75, exit_reason: "suspended" });
      expect(recordOf(machine, receipt.uuid)).toMatchObject({ state: "suspended", exit_code: 75 });
      expect(machine.strays()).toEqual([]);
    });
  }

  test("TERM twice kills the run, and jsonl still ends with its complete", async () => {
    await using machine = new Machine();
    machine.config(PATIENT);
    await machine.play({ "hold it": [DEAF] });
    const command = machine.start(["spawn", "hold it", "--output", "jsonl"]);
    await machine.held();
    command.signal("SIGTERM");
    await until(() => machine.has("asked"), "the asked program's answer");
    command.signal("SIGTERM");
    const { code, stdout } = await command.done;
    const last = JSON.parse(stdout.trimEnd().split("\n").at(-1) ?? "");
    expect(last).toMatchObject({ type: "complete", payload: { exit_code: code } });
    expect(code).toBe(130);
    expect(machine.strays()).toEqual([]);
  });

  test("a closed terminal does not end the daemon's run", async () => {
    await using machine = await Machine.playing({
      "go on": [bash("touch held; until test -e go; do sleep 0.02; done"), says("gone on")],
    });
    const command = machine.startAtTerminal(["spawn", "go on"]);
    await machine.held();
    command.hangUp();
    await command.done;
    machine.write("go", "");
    const waited = await machine.run(["wait", "1"]);
    expect(waited).toMatchObject({ code: 0, stdout: "gone on\n" });
  });
});

describe("a closed terminal", () => {
  test("suspends the run of --no-daemon, and leaves nothing", async () => {
    await using machine = await Machine.playing({ "hold it": [HOLD] });
    const command = machine.startAtTerminal(["spawn", "hold it", "--no-daemon"]);
    await machine.held();
    command.hangUp();
    await command.done;
    expect(machine.leftovers()).toEqual([]);
    expect(await listed(machine)).toMatchObject([{ exit_reason: "suspended" }]);
  });
});

describe("rnix kill", () => {
  const ENDS: [flags: string[], exit_code: number, exit_reason: string][] = [
    [[], 143, "terminated"],
    [["-s", "TERM"], 143, "terminated"],
    [["-s", "SIGINT"], 130, "interrupted"],
    [["-s", "3"], 130, "interrupted"],
    [["-s", "KILL"], 137, "killed"],
    [["-s", "2"], 137, "killed"],
  ];

  test("ends a run with the signal's code in every state; rnix wait exits with the same", async () => {
    await using machine = new Machine();
    const model = await machine.play({ "hold it": [HOLD], "think about it": [{ fault: { kind: "hang" } }] });
    await machine.run(["daemon", "start"]);
    for (const [flags, exit_code, exit_reason] of ENDS) {
      const before = model.requests.length;
      const spawned = [
        machine.start(["spawn", "hold it", "-q"]),
        machine.start(["spawn", "think about it", "-q"]),
      ];
      await Promise.all([machine.held(), model.arrived(before + 2)]);
      machine.remove("held");
      const pids = (await listed(machine, [])).map(({ pid }) => String(pid));
      const killed = await machine.run(["kill", ...flags, ...pids]);
      expect({ flags, code: killed.code }).toEqual({ flags, code: 0 });
      for (const { done } of spawned)
        expect({ flags, code: (await done).code }).toEqual({ flags, code: exit_code });
      for (const pid of pids) {
        const waited = await machine.run(["wait", pid, "--json"]);
        expect(JSON.parse(waited.stdout)).toMatchObject({ exit_code, exit_reason });
      }
      expect(machine.strays()).toEqual([]);
    }
  });

  test("-s KILL does not wait for the grace period, and ends a run that TERM waits for", async () => {
    await using machine = new Machine();
    machine.config({ grace: "5m" });
    await machine.play({ "hold it": [DEAF] });
    for (const first of ["KILL", "TERM"]) {
      const command = machine.start(["spawn", "hold it", "-q"]);
      await machine.held();
      machine.remove("held");
      const [info] = await listed(machine, []);
      await machine.run(["kill", "-s", first, String(info?.pid)]);
      if (first === "TERM") {
        await until(() => machine.has("asked"), "the asked program's answer");
        await machine.run(["kill", "-s", "KILL", String(info?.pid)]);
      }
      expect({ first, code: (await command.done).code }).toEqual({
        first,
        code: first === "KILL" ? 137 : 143,
      });
      expect(machine.strays()).toEqual([]);
    }
  });

  test("refuses a signal that the kernel does not have, and lists the valid ones", async () => {
    await using machine = new Machine();
    for (const [args, hint] of [
      [["-9", "1"], "-s KILL"],
      [["-s", "9", "1"], "-s KILL"],
      [["-s", "HUP", "1"], "TERM (1)"],
      [["-s", "STOP", "1"], "TERM (1)"],
      [["-TERM", "1"], "-s TERM"],
      [["-s", "0", "1"], "TERM (1)"],
    ] as const) {
      const { code, stderr } = await machine.run(["kill", ...args]);
      expect({ args, code }).toEqual({ args, code: 64 });
      expect(stderr).toContain(hint);
    }
    expect(machine.leftovers()).toEqual([]);
  });

  test("continues with the next PID when one does not exist, and names that one", async () => {
    await using machine = await Machine.playing({ "hold it": [HOLD] });
    const command = machine.start(["spawn", "hold it", "-q"]);
    await machine.held();
    const killed = await machine.run(["kill", "77", "1"]);
    expect(killed.code).toBe(64);
    expect(killed.stderr).toContain("77");
    expect((await command.done).code).toBe(143);
  });
});

describe.concurrent("rnix pause", () => {
  test("stops a run between its calls, freezes its time, and ps shows it; rnix continue continues it", async () => {
    await using machine = new Machine();
    const model = await machine.play({
      "take two": [bash("touch held; until test -e go; do sleep 0.02; done"), says("done")],
    });
    const command = machine.start(["spawn", "take two", "--output", "json"]);
    await machine.held();
    expect((await machine.run(["pause", "1"])).stderr).toContain("PAUSE");
    machine.write("go", "");
    await until(() => sleepers(machine) === 0, "the end of the call");
    const [first] = await listed(machine, []);
    expect(first).toMatchObject({ state: "running", is_paused: true });
    expect(first?.paused_at_ms).toBeGreaterThan(first?.created_at_ms ?? 0);
    expect((await machine.run(["ps"])).stdout).toMatch(/\n1 +paused/);
    await machine.run(["pause", "1"]);
    const [second] = await listed(machine, []);
    expect(second?.elapsed_ms).toBe(first?.elapsed_ms ?? -1);
    expect(second?.paused_at_ms).toBe(first?.paused_at_ms ?? -1);
    expect(model.requests).toHaveLength(1);

    await machine.ok(["continue", "1"]);
    const { stdout, code, ms } = await command.done;
    expect(code).toBe(0);
    const receipt = Receipt.parse(JSON.parse(stdout));
    expect(receipt).toMatchObject({ result: "done" });
    expect(receipt.elapsed_ms).toBeLessThan(ms);
  });

  test("paused time counts towards no deadline", async () => {
    await using machine = await Machine.playing({
      "take two": [bash("touch held; until [ -e go ]; do sleep 0.02; done"), says("done")],
    });
    const command = machine.start(["spawn", "take two", "-q", "--timeout", "5s"]);
    await machine.held();
    const began = performance.now();
    await machine.ok(["pause", "1"]);
    machine.write("go", "");
    await until(() => performance.now() - began > 5_500, "more than the run's time");
    expect((await listed(machine, []))[0]).toMatchObject({ is_paused: true });
    await machine.run(["continue", "1"]);
    expect(await command.done).toMatchObject({ code: 0, stdout: "done\n" });
  });

  test("a paused run can be killed, suspended by Ctrl-C, and stopped with the daemon", async () => {
    await using machine = await Machine.playing({ "hold it": [HOLD] });
    for (const [end, code, reason] of [
      ["kill", 143, "killed_while_paused"],
      ["Ctrl-C", 75, "suspended"],
      ["daemon stop", 75, "suspended"],
    ] as const) {
      const command = machine.start(["spawn", "hold it", "--output", "json"]);
      await machine.held();
      machine.remove("held");
      const [info] = await listed(machine, []);
      await machine.ok(["pause", String(info?.pid)]);
      if (end === "kill") await machine.run(["kill", String(info?.pid)]);
      else if (end === "Ctrl-C") command.signal("SIGINT");
      else await machine.run(["daemon", "stop"]);
      const { stdout } = await command.done;
      expect(JSON.parse(stdout)).toMatchObject({ exit_code: code, exit_reason: reason });
      expect(machine.strays()).toEqual([]);
    }
  });

  test("and every other signal is no error for a run that has ended", async () => {
    await using machine = await Machine.playing({ "say so": [says("so")] });
    await machine.run(["spawn", "say so", "-q"]);
    for (const command of ["pause", "continue", "kill"]) {
      const { code, stderr } = await machine.run([command, "1"]);
      expect({ command, code }).toEqual({ command, code: 0 });
      expect(stderr).toMatch(/it has ended already, (PAUSE|RESUME|TERM) was not sent/);
    }
  });
});

describe("attach", () => {
  test("Ctrl-C detaches and leaves the run running", async () => {
    await using machine = await Machine.playing({
      "go on": [bash("touch held; until test -e go; do sleep 0.02; done"), says("gone on")],
    });
    await machine.run(["spawn", "go on", "--detach"]);
    await machine.held();
    const attached = machine.startAtTerminal(["attach", "1"]);
    const other = machine.start(["attach", "1"]);
    await attached.shows(/1/);
    attached.type(CTRL_C);
    const { screen, code } = await attached.done;
    expect(code).toBe(0);
    expect(screen).toContain("rnix attach 1");
    expect((await listed(machine, []))[0]).toMatchObject({ state: "running", is_paused: false });
    machine.write("go", "");
    expect(await other.done).toMatchObject({ code: 0, stdout: "gone on\n" });
    expect(await machine.run(["attach", "1"])).toMatchObject({ code: 0, stdout: "gone on\n" });
  });
});

function sleepers(machine: Machine): number {
  return processesOf(machine.root).filter(({ command, pid }) => /sleep/.test(command) && isAlive(pid)).length;
}
