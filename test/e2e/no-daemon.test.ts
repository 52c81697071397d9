import { expect, test } from "bun:test";
import { z } from "zod";
import { ProcInfo } from "../../src/store/runs/schema.ts";
import { Machine } from "./support/machine.ts";
import { toolResults } from "./support/requests.ts";
import { bash, calls, says } from "./support/scenes.ts";
import { verdict } from "./support/verdict.ts";

test("--no-daemon runs inside the command, and leaves only the run's record", async () => {
  await using machine = new Machine({ git: true });
  const model = await machine.play({
    "do it": [
      calls(["Write", { path: "a.txt", content: "a" }]),
      // Whatever it leaves in the background is ended with the call.
      bash("setsid sleep 60 & env -i setsid sleep 60 & echo begun"),
      says("done"),
    ],
  });
  const { receipt } = await verdict(machine, ["do it", "--no-daemon", "--check", "test -f a.txt"]);
  expect(receipt).toMatchObject({
    exit_code: 0,
    result: "done",
    files_changed: ["a.txt"],
    files_changed_complete: true,
  });
  expect(model.requests.flatMap(toolResults)).toContain("begun");
  expect(machine.daemonPid).toBeNull();
  expect(machine.leftovers()).toEqual([]);

  const detached = await machine.run(["spawn", "do it", "--no-daemon", "--detach"]);
  expect(detached).toMatchObject({ code: 64, stdout: "" });
  expect(detached.stderr).toContain("--detach");
  expect(machine.leftovers()).toEqual([]);
});

test("a daemon lists runs of --no-daemon commands with their PIDs, and never as its own", async () => {
  await using machine = new Machine();
  const go = Promise.withResolvers<void>();
  const model = await machine.play({
    "inside one": [
      async () => {
        await go.promise;
        return says("inside");
      },
    ],
    "in the daemon": [says("daemon")],
  });
  const inside = machine.start(["spawn", "inside one", "--no-daemon", "--output", "json"]);
  await model.arrived(1);
  const beside = await machine.run(["spawn", "in the daemon", "--output", "json"]);
  expect(JSON.parse(beside.stdout)).toMatchObject({ exit_code: 0, result: "daemon" });
  expect(machine.daemonPid).not.toBeNull();

  const killed = await machine.run(["kill", "1"]);
  expect(killed.code).toBe(69);
  expect(killed.stderr).toContain("--no-daemon");
  go.resolve();
  const ended = await inside.done;
  expect(JSON.parse(ended.stdout)).toMatchObject({ pid: 1, exit_code: 0, result: "inside" });
  const all = z.array(ProcInfo).parse(await machine.json(["ps", "-a", "--json"]));
  expect(all.map(({ intent, exit_reason }) => [intent, exit_reason])).toEqual([
    ["inside one", "completed"],
    ["in the daemon", "completed"],
  ]);
  const [first, second] = all.map(({ pid }) => pid);
  expect(second).toBeGreaterThan(first ?? 0);
});

test("a command that waits for nothing but a timer leaves the processor alone", async () => {
  const busy = { kind: "status", status: 503, headers: { "retry-after": "3" } } as const;
  await using machine = await Machine.playing({ "do it": [{ fault: busy }, says("done")] });
  const inside = machine.start(["spawn", "do it", "--no-daemon", "-q"]);
  const { code, ms } = await inside.done;
  expect(code).toBe(0);
  expect(ms).toBeGreaterThan(3000);
  expect(inside.cpuMs).toBeLessThan(2000);
});

test("the server inside the command logs to stderr at the level of RNIX_LOG, and nowhere else", async () => {
  await using machine = await Machine.playing({ "do it": [says("done")] });
  const inside = ["spawn", "do it", "--no-daemon", "-q"];
  expect(await machine.run(inside)).toMatchObject({ code: 0, stdout: "done\n", stderr: "" });
  const loud = await machine.run(inside, { env: { RNIX_LOG: "info" } });
  expect(loud).toMatchObject({ code: 0, stdout: "done\n" });
  expect(loud.stderr).toMatch(
    /^info PID 2: spawned \S+, agent default on openai\/m: do it\ninfo PID 2: ended with 0, completed\n$/,
  );
  const wrong = await machine.run(inside, { env: { RNIX_LOG: "loud" } });
  expect(wrong).toMatchObject({ code: 64, stdout: "" });
  expect(wrong.stderr).toContain('RNIX_LOG: expected debug, info, warn; got "loud"');
  expect(machine.leftovers()).toEqual([]);
});
