import { describe, expect, test } from "bun:test";
import { join } from "node:path";
import { isAlive } from "../../support/is-alive.ts";
import { until } from "../../support/until.ts";
import { textOf } from "../support/leftovers.ts";
import { Machine } from "../support/machine.ts";
import { toolResults } from "../support/requests.ts";
import { bash, calls, type Scene, says } from "../support/scenes.ts";
import { recordOf, uuidOf, verdict } from "../support/verdict.ts";

/** Asks for all parts in one answer, and repeats their results in order. */
function lead(parts: readonly string[]): Scene[] {
  const agents = parts.map((intent): [string, Record<string, unknown>] => ["Agent", { intent }]);
  return [
    calls(...agents),
    (request) =>
      says(
        toolResults(request)
          .map((text) => text.split("\n")[0])
          .join(", "),
      ),
  ];
}

/** A part that marks its beginning, and ends when the other one has begun too. */
function meeting(name: string, other: string): Scene[] {
  return [bash(`touch ${name}; until test -e ${other}; do sleep 0.02; done`), says(name)];
}

describe("two calls of Agent in one answer", () => {
  for (const way of [[], ["--no-daemon"]]) {
    test(`run side by side ${way.join("") || "in the daemon"}: each waits for the other`, async () => {
      await using machine = await Machine.playing({
        both: lead(["left", "right"]),
        left: meeting("left", "right"),
        right: meeting("right", "left"),
      });
      const { receipt, info } = await verdict(machine, ["both", ...way]);
      expect(receipt).toMatchObject({ exit_code: 0, result: "left, right", steps: 2, tool_calls: 2 });
      expect(receipt.children.map(({ exit_code }) => exit_code)).toEqual([0, 0]);
      const own = info.usage.input_tokens + info.usage.output_tokens;
      const children = receipt.children.reduce((sum, { tokens_used }) => sum + tokens_used, 0);
      expect(receipt.tokens_used).toBe(own + children);
    });
  }

  test("take the time of one", async () => {
    await using machine = new Machine();
    const nap: Scene[] = [bash("sleep 2"), says("slept")];
    await machine.play({ both: lead(["left", "right"]), left: nap, right: nap });
    const { receipt } = await verdict(machine, ["both"]);
    expect(receipt.result).toBe("slept, slept");
    expect(receipt.elapsed_ms).toBeGreaterThanOrEqual(2_000);
    expect(receipt.elapsed_ms).toBeLessThan(4_000);
  });
});

test("five calls with live_children of 2 run two at a time, and none is refused", async () => {
  await using machine = new Machine();
  machine.config({ live_children: 2 });
  const parts = ["a", "b", "c", "d", "e"];
  const part: Scene[] = [
    bash('touch "live-$$"; ls live-* | wc -l >> seen; sleep 0.2; rm "live-$$"'),
    says("did it"),
  ];
  await machine.play({ all: lead(parts), ...Object.fromEntries(parts.map((intent) => [intent, part])) });
  const { receipt } = await verdict(machine, ["all"]);
  expect(receipt.result).toBe(parts.map(() => "did it").join(", "));
  expect(receipt.children).toHaveLength(5);
  const seen = machine.read("seen").trim().split("\n").map(Number);
  expect(seen).toHaveLength(5);
  expect(Math.max(...seen)).toBe(2);
});

describe("kill -9 while two children run and one has ended", () => {
  test("then resume: each child did its work once, and the results are in order", async () => {
    await using machine = new Machine();
    // In the second try the files are there: the model looks before it does its work again.
    const part = (name: string): Scene[] => [
      bash(`echo ${name} >> done-${name}; touch held-${name}; sleep 600`),
      (request) =>
        says(/may or may not have happened/.test(JSON.stringify(request.body)) ? `${name} again` : name),
    ];
    await machine.play({
      all: lead(["quick", "left", "right"]),
      quick: [says("quick")],
      left: part("left"),
      right: part("right"),
    });
    const run = machine.start(["spawn", "all"]);
    const uuid = await uuidOf(run);
    await until(() => machine.has("held-left") && machine.has("held-right"));
    const journal = join(machine.project, ".rnix/data/steps", uuid, "step.journal");
    await until(() => (textOf(journal) ?? "").includes('"call_end"'), "the end of the quick child");
    const pid = machine.killDaemon();
    await until(() => !isAlive(pid), "the daemon's end");
    await run.done;

    const resumed = await machine.run(["resume", uuid]);
    expect(resumed).toMatchObject({ code: 0, stdout: "quick, left again, right again\n" });
    expect([machine.read("done-left"), machine.read("done-right")]).toEqual(["left\n", "right\n"]);
    const { children, tokens_used, usage } = recordOf(machine, uuid);
    expect(children).toHaveLength(3);
    // What was used before the kill counts, that of the child that had ended too.
    const counted = children.reduce((sum, child) => sum + child.tokens_used, 0);
    expect(tokens_used).toBe(usage.input_tokens + usage.output_tokens + counted);
    expect(machine.strays()).toEqual([]);
  });
});
