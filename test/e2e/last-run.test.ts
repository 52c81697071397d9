import { expect, test } from "bun:test";
import { Machine } from "./support/machine.ts";
import { bash, calls, says } from "./support/scenes.ts";

test("commands take the project's last run when none is named, and say which", async () => {
  await using machine = new Machine();
  const held = Promise.withResolvers<void>();
  const model = await machine.play({
    "the first": [says("One.")],
    "the long": [
      calls(["Agent", { agent: "default", intent: "the child" }]),
      async () => {
        await held.promise;
        return says("Never seen.");
      },
      says("Long."),
    ],
    "the child": [says("Child.")],
  });
  const empty = await machine.run(["log"]);
  expect(empty).toMatchObject({ code: 64, stderr: expect.stringContaining("There is no run in") });

  const long = await machine.run(["spawn", "the long", "--detach"]);
  const [longPid = "", longUuid = ""] = long.stdout.trim().split(" ");
  await model.arrived(3);
  await machine.ok(["the first"]);

  // The child of the long run is newer than the run, and no run of the user.
  const shown = await machine.run(["show", "--json"]);
  expect(JSON.parse(shown.stdout)).toMatchObject({ intent: "the first" });
  expect(shown.stderr).toMatch(/^process \d+ {2}[0-9a-f-]{36} {2}the first\n$/);
  for (const command of ["log", "steps"]) {
    expect((await machine.run([command])).stderr).toContain("the first");
  }

  // What needs a live run takes the last live one.
  const suspended = await machine.run(["suspend"]);
  expect(suspended.stderr).toContain(`process ${longPid}  ${longUuid}  the long\n`);
  expect(suspended.code).toBe(0);

  held.resolve();
  const resumed = await machine.run(["resume", longUuid]);
  expect(resumed).toMatchObject({ code: 0, stdout: "Long.\n" });
  // It was resumed after the other one began.
  const again = await machine.run(["resume", "and again"]);
  expect(again).toMatchObject({ code: 0, stdout: "Long.\n" });
  expect(again.stderr).toContain(longUuid);

  // Nothing that destroys guesses.
  expect((await machine.run(["kill"])).code).toBe(64);
  const elsewhere = await machine.run(["log"], { cwd: machine.elsewhere });
  expect(elsewhere.code).toBe(64);
});

test("the last run is the latest, also beside a kernel whose PIDs are higher", async () => {
  await using machine = await Machine.playing({
    one: [says("One.")],
    two: [says("Two.")],
    three: [says("Three.")],
  });
  await machine.ok(["spawn", "one"]);
  await machine.ok(["spawn", "two", "--no-daemon"]);
  expect((await machine.run(["show"])).stderr).toContain("two");
  await machine.ok(["spawn", "three"]);
  expect((await machine.run(["show"])).stderr).toContain("three");
});

test("inside a run no run is guessed", async () => {
  await using machine = await Machine.playing({
    "look at yourself": [bash('"$RNIX_TESTED" log; echo "exit $?"'), says("Done.")],
  });
  const { binary } = await import("./support/binary.ts");
  const run = await machine.run(["spawn", "look at yourself", "--env", `RNIX_TESTED=${binary()}`]);
  expect(run.code).toBe(0);
  expect(run.stderr).toContain("Inside a run, name the run");
});
