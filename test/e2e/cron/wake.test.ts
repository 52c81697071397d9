import { expect, test } from "bun:test";
import { until } from "../../support/until.ts";
import { writeKeys } from "../support/keys-file.ts";
import { Machine } from "../support/machine.ts";
import { toolResults } from "../support/requests.ts";
import { calls, says } from "../support/scenes.ts";
import { recordOf, verdict } from "../support/verdict.ts";

const CTRL_D = "\x04";
const ENTER = "\r";
const READY = /^❯/m;
const EMPTY_LINE = /^❯\s*$/m;

/** The results of the tool Wake that the model was sent. */
function wakes(model: Awaited<ReturnType<Machine["model"]>>): string[] {
  const last = model.requests.at(-1);
  return last === undefined ? [] : toolResults(last).filter((text) => text.includes("It is "));
}

test.concurrent("a run that waits is suspended, and the next daemon resumes it after a kill -9 at its time", async () => {
  await using machine = new Machine();
  const model = await machine.play({ "look later": [calls(["Wake", { in: "3s" }]), says("it works")] });
  writeKeys(machine);
  const { receipt } = await verdict(machine, ["look later", "--no-input"]);
  expect(receipt).toMatchObject({ exit_code: 75, suspended: { by_itself: true, wake: { on: "at" } } });
  const { uuid } = receipt;
  expect((await machine.run(["ps"])).stdout).toMatch(/suspended .* waits until \d{4}/);
  machine.killDaemon();
  await machine.ok(["daemon", "start"]);
  await until(() => recordOf(machine, uuid).exit_code === 0, "its end");
  const record = recordOf(machine, uuid);
  expect(record).toMatchObject({ result: "it works", steps: 2 });
  // The wait does not count; until it is suspended, the run does.
  const wholeMs = (record.ended_at_ms ?? 0) - record.created_at_ms;
  expect(record.elapsed_ms).toBeLessThan(wholeMs - 1_000);
  expect(wakes(model)).toEqual([expect.stringMatching(/^The time has come\. It is \d{4}-.*Z\.$/)]);
});

test.concurrent("without a daemon the call is refused, and the run continues", async () => {
  await using machine = new Machine();
  const model = await machine.play({
    "look later": [calls(["Wake", { in: "3s" }]), says("I could not wait")],
  });
  const { receipt } = await verdict(machine, ["look later", "--no-daemon"]);
  expect(receipt).toMatchObject({ exit_code: 0, result: "I could not wait" });
  const results = model.requests.flatMap(toolResults);
  expect(results.at(-1)).toContain("no daemon that could resume it (--no-daemon)");
});

test.concurrent("a chat waits in place, and its user's next message ends the wait", async () => {
  await using machine = new Machine();
  const model = await machine.play({
    "tell me when": [calls(["Wake", { in: "1h" }]), says("still nothing")],
  });
  await using terminal = machine.terminal(["chat"]);
  await terminal.until(READY);
  terminal.type(`tell me when it is done${ENTER}`);
  await terminal.until(/Wake in=1h/);
  terminal.type(`and now?${ENTER}`);
  await terminal.until((text) => text.includes("still nothing") && EMPTY_LINE.test(text));
  terminal.type(CTRL_D);
  expect((await terminal.done).code).toBe(0);
  expect(wakes(model)).toEqual([expect.stringContaining("The user has sent a message.")]);
});
