import { describe, expect, test } from "bun:test";
import { join } from "node:path";
import { z } from "zod";
import { Machine } from "./support/machine.ts";
import { toolResults } from "./support/requests.ts";
import { bash, says } from "./support/scenes.ts";
import { receiptOf, recordOf, uuidOf } from "./support/verdict.ts";

const CTRL_C = "\x03";
/** Writes a line, and does not end. */
const HOLD = bash("echo line >> lines; touch held; sleep 600");

function stepsOf(machine: Machine, uuid: string): { step: number; tool_calls: { state: string }[] }[] {
  const lines = machine
    .read(join(".rnix/data/steps", uuid, "steps.jsonl"))
    .trimEnd()
    .split("\n");
  return lines.map((line) => JSON.parse(line));
}

test("a run that is suspended during an answer closes its call and records the text so far; the resume asks again", async () => {
  await using machine = new Machine();
  const half = {
    text: "the first half, and never the second",
    chunks: 4,
    fault: { kind: "hang_midway" as const },
  };
  const model = await machine.model([half, says("the end")]);
  const command = machine.start(["spawn", "say it", "--output", "jsonl"]);
  await command.stdout.has(/"the first/);
  const [listed] = z.array(z.object({ uuid: z.string() })).parse(await machine.json(["ps", "--json"]));
  const uuid = listed?.uuid ?? "";
  await machine.ok(["suspend", uuid]);
  expect((await command.done).code).toBe(75);
  expect(await model.requests[0]?.closed).toBe("aborted");
  expect(recordOf(machine, uuid)).toMatchObject({
    state: "suspended",
    partial: true,
    result: expect.stringMatching(/^the first/),
  });
  expect(await machine.run(["resume", uuid])).toMatchObject({ code: 0, stdout: "the end\n" });
  expect(recordOf(machine, uuid)).toMatchObject({ partial: false, result: "the end", steps: 1 });
  expect(model.requests[1]?.body.messages).toEqual(model.requests[0]?.body.messages ?? []);
});

describe("a run that Ctrl-C has suspended", () => {
  test("is resumed by rnix resume to its end: 75, then 0, the same conversation under the same UUID", async () => {
    await using machine = new Machine();
    const model = await machine.play({ "hold it": [HOLD, says("went on")] });
    const command = machine.startAtTerminal([
      "spawn",
      "hold it",
      "--system-prompt",
      "Be brief.",
      "--deny",
      "Write",
    ]);
    await machine.held();
    command.type(CTRL_C);
    const { screen, code } = await command.done;
    expect(code).toBe(75);
    const [, uuid = ""] = /rnix resume ([0-9a-f-]+)/.exec(screen) ?? [];
    const before = recordOf(machine, uuid);
    expect(before.suspended).toEqual({ reason: "on request", cause: "asked", wake: { on: "never" } });

    const resumed = await machine.run(["resume", uuid]);
    expect(resumed).toMatchObject({ code: 0, stdout: "went on\n" });
    const after = recordOf(machine, uuid);
    expect(after).toMatchObject({ exit_code: 0, steps: 2, tool_calls: 1, permissions: before.permissions });
    expect(after.pid).toBeGreaterThan(before.pid);
    const [first, second] = model.requests;
    expect(JSON.stringify(second?.body)).toContain("may have taken effect in part");
    expect(second?.body.messages?.slice(0, 2)).toEqual(first?.body.messages ?? []);
    expect(second?.body.tools).toEqual(first?.body.tools);
    expect(machine.strays()).toEqual([]);
  });

  test("with --no-daemon is resumed by the daemon, and the other way round", async () => {
    await using machine = await Machine.playing({ "hold it": [HOLD, HOLD, says("went on")] });
    const inside = machine.start(["spawn", "hold it", "--no-daemon", "--output", "json"]);
    await machine.held();
    inside.signal("SIGINT");
    const { uuid } = receiptOf(await inside.done);
    machine.remove("held");
    const daemon = machine.start(["resume", uuid, "--output", "json"]);
    await machine.held();
    await machine.ok(["suspend", uuid]);
    expect((await daemon.done).code).toBe(75);
    const last = await machine.run(["resume", uuid, "--no-daemon", "--output", "json"]);
    expect(receiptOf(last)).toMatchObject({
      uuid,
      exit_code: 0,
      steps: 3,
      result: "went on",
    });
  });

  test("by a daemon's stop is resumed by the next daemon, with a new limit", async () => {
    await using machine = await Machine.playing({ "hold it": [HOLD, HOLD] });
    const spawned = machine.start(["spawn", "hold it", "--output", "json"]);
    await machine.held();
    await machine.ok(["daemon", "stop"]);
    const { uuid, exit_code } = receiptOf(await spawned.done);
    expect(exit_code).toBe(75);
    const { code, stderr } = await machine.run(["resume", uuid, "--max-steps", "1"]);
    expect(code).toBe(1);
    expect(stderr).toContain("max_steps");
  });
});

describe("a daemon that is killed while a run's tool is at work", () => {
  test("loses nothing: the model reads that the result is unknown, and the command is not run again", async () => {
    await using machine = new Machine();
    const model = await machine.play({ "hold it": [HOLD, says("I have looked")] });
    const command = machine.start(["spawn", "hold it"]);
    await machine.held();
    const uuid = await uuidOf(command);
    machine.killDaemon();
    await command.done;
    const listed = await machine.run(["ps", "-a", "--json"]);
    expect(JSON.parse(listed.stdout)).toMatchObject([{ uuid, state: "suspended", exit_code: 75, steps: 1 }]);
    expect((await machine.run(["log", uuid])).stdout).toContain("may or may not have happened");

    const resumed = await machine.run(["resume", uuid]);
    expect(resumed).toMatchObject({ code: 0, stdout: "I have looked\n" });
    expect(machine.read("lines")).toBe("line\n");
    const [, last] = model.requests;
    expect(last && toolResults(last).join()).toContain("may or may not have happened");
    expect(
      stepsOf(machine, uuid).map(({ step, tool_calls }) => [step, tool_calls.map((call) => call.state)]),
    ).toEqual([
      [1, ["unknown"]],
      [2, []],
    ]);
    expect(machine.strays()).toEqual([]);
  });
});

describe("rnix resume", () => {
  test("continues a finished run with a message; without one it is refused and changes nothing", async () => {
    await using machine = new Machine();
    const model = await machine.play({ "answer me": [says("one"), says("two")] });
    const first = await machine.run(["spawn", "answer me", "--output", "json"]);
    const { uuid } = receiptOf(first);
    const before = recordOf(machine, uuid);
    const refused = await machine.run(["resume", uuid]);
    expect(refused.code).toBe(64);
    expect(refused.stderr).toContain("has completed");
    expect(recordOf(machine, uuid)).toEqual(before);
    const { code, stdout } = await machine.run(["resume", uuid, "and more?"]);
    expect({ code, stdout }).toEqual({ code: 0, stdout: "two\n" });
    expect(JSON.stringify(model.last.body)).toContain("and more?");
  });

  test("twice at once: one command gets the run, the other an error", async () => {
    await using machine = await Machine.playing({ "hold it": [HOLD, says("went on")] });
    const command = machine.start(["spawn", "hold it", "--no-daemon", "--output", "json"]);
    await machine.held();
    command.signal("SIGINT");
    const { uuid } = receiptOf(await command.done);
    const tries = await Promise.all(
      [["--no-daemon"], ["--no-daemon"], []].map((how) => machine.run(["resume", uuid, ...how])),
    );
    // A command that comes after the first has finished finds a completed run.
    expect(tries.map(({ code }) => code).sort()).toEqual([0, 64, 64]);
    for (const { code, stderr } of tries)
      if (code !== 0) expect(stderr).toMatch(/being resumed|is alive as PID|has completed/);
    expect(stepsOf(machine, uuid).map(({ step }) => step)).toEqual([1, 2]);
  });

  test("of a live run is refused, and from another folder finds the run's own project", async () => {
    await using machine = await Machine.playing({
      "hold it": [HOLD, bash("pwd"), says("done")],
    });
    const command = machine.start(["spawn", "hold it", "--output", "json"]);
    await machine.held();
    const [info] = await machine.json(["ps", "--json"]);
    const refused = await machine.run(["resume", info.uuid]);
    expect(refused.code).toBe(64);
    expect(refused.stderr).toContain("is alive as PID 1");
    await machine.run(["suspend", "1"]);
    await command.done;
    const resumed = await machine.run(["resume", info.uuid], { cwd: machine.elsewhere });
    expect(resumed.code).toBe(0);
    expect(resumed.stderr).toContain(machine.project);
  });
});
