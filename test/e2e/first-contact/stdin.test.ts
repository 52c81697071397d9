import { expect, test } from "bun:test";
import { binary } from "../support/binary.ts";
import { Machine } from "../support/machine.ts";
import { bash, says } from "../support/scenes.ts";
import { Receipt, receiptOf, recordOf, verdict } from "../support/verdict.ts";

test.concurrent("a pipe that begins late and pauses is attached whole, by spawn and by resume", async () => {
  await using machine = new Machine();
  machine.config({ stdin_wait: "20s" });
  const model = await machine.play({ "why?": [says("because"), says("again")] });
  const late = machine.start(["spawn", "why?", "--output", "json"], { stdin: "open" });
  await late.stderr.has(/reading stdin …; --no-stdin/);
  late.write("first\n");
  // A pause of the pipe.
  await Bun.sleep(300);
  late.write("late\n");
  late.end();
  const receipt = receiptOf(await late.done);
  expect(receipt).toMatchObject({ exit_code: 0, notices: [] });
  expect(model.last.text).toContain("why?\\n\\n<input>\\nfirst\\nlate\\n\\n</input>");

  // More than a message between agents may have, and no file.
  const log = `${"a line of a long log\n".repeat(50_000)}the end of it`;
  const resumed = await machine.run(["resume", receipt.uuid, "and now?", "--output", "json"], {
    stdin: { text: log },
  });
  expect(JSON.parse(resumed.stdout)).toMatchObject({ exit_code: 0, result: "again" });
  expect(model.last.text).toContain("and now?\\n\\n<input>\\na line of a long log");
  expect(model.last.text).toContain("the end of it\\n</input>");
});

test.concurrent.each([[[]], [["--no-daemon"]]])(
  "a silent pipe is left with a note in stderr, JSON and record %p",
  async (flags) => {
    await using machine = new Machine();
    machine.config({ stdin_wait: "1s" });
    await machine.play({ "do it": [says("done"), says("more")] });
    const NOTE = "stdin sent nothing for 1s and was left";
    const { receipt, stderr } = await verdict(machine, ["do it", "-q", ...flags], { stdin: "open" });
    expect(receipt.notices).toEqual([expect.stringContaining(NOTE)]);
    expect(stderr.match(new RegExp(NOTE, "g"))).toHaveLength(1);
    expect(recordOf(machine, receipt.uuid).notices).toEqual(receipt.notices);
    expect((await machine.run(["show", receipt.uuid])).stdout).toContain(NOTE);

    // The pipe may hold the run's message: without one, there is nothing to resume with.
    const resumed = await machine.run(["resume", receipt.uuid, ...flags], { stdin: "open" });
    expect(resumed.code).toBe(64);
    expect(resumed.stderr).toContain("Add a message");
    const continued = await machine.run(["resume", receipt.uuid, "more", "--output", "json", ...flags], {
      stdin: "open",
    });
    expect(JSON.parse(continued.stdout)).toMatchObject({ result: "more", notices: receipt.notices });
  },
);

test("neither /dev/null nor a closed stdin nor --no-stdin costs any time", async () => {
  await using machine = new Machine();
  machine.config({ stdin_wait: "unlimited" });
  const model = await machine.play({ "do it": [says("done")] });
  const rnix = machine.write("rnix.sh", '#!/bin/sh\nexec "$RNIX" "$@" <&-\n');
  const runs = [
    machine.start(["spawn", "do it"]),
    machine.start([rnix, "spawn", "do it"], { rnix: "/bin/sh", env: { RNIX: binary() } }),
    machine.start(["spawn", "do it", "--no-stdin"], { stdin: "open" }),
  ];
  for (const run of runs) {
    const { code, stderr } = await run.done;
    expect(code).toBe(0);
    expect(stderr).not.toContain("stdin");
  }
  expect(model.requests.every(({ text }) => !text.includes("<input>"))).toBe(true);
});

test.concurrent("Ctrl-C while stdin is read starts nothing; a daemon that restarts meanwhile loses nothing", async () => {
  await using machine = new Machine();
  const model = await machine.play({ "do it": [bash("true"), says("done")] });
  for (const flags of [[], ["--no-daemon"]]) {
    const stopped = machine.start(["spawn", "do it", "--stdin", "--output", "json", ...flags], {
      stdin: "open",
    });
    stopped.write("half");
    await stopped.stderr.has(/reading stdin/);
    stopped.signal("SIGINT");
    const { code, stdout } = await stopped.done;
    expect(code).toBe(130);
    expect(Receipt.parse(JSON.parse(stdout))).toMatchObject({
      exit_code: 130,
      exit_reason: "interrupted",
      pid: 0,
    });
  }
  const kept = machine.start(["spawn", "do it", "--stdin", "-q"], { stdin: "open" });
  await machine.until(["daemon", "status"], /running|PID/i);
  kept.write("first half, ");
  await machine.ok(["daemon", "restart"]);
  kept.write("second half");
  kept.end();
  expect(await kept.done).toMatchObject({ code: 0, stdout: "done\n" });
  expect(model.last.text).toContain("first half, second half");
});

test.concurrent("a pipe that never ends is given up when the run's time is over, and the error says so", async () => {
  await using machine = new Machine();
  const model = await machine.play({ "do it": [says("done")] });
  const endless = machine.start(["spawn", "do it", "--timeout", "2s", "--output", "json"], { stdin: "open" });
  endless.write("begun");
  const { code, stdout, stderr } = await endless.done;
  expect(code).toBe(1);
  expect(Receipt.parse(JSON.parse(stdout))).toMatchObject({
    pid: 0,
    exit_reason: "timeout",
    error: { code: "TIMEOUT" },
  });
  expect(stderr).toContain("--timeout");
  expect(model.requests).toEqual([]);
});
