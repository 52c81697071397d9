import { describe, expect, test } from "bun:test";
import { installed } from "../../support/installed.ts";
import { until } from "../../support/until.ts";
import { Machine } from "../support/machine.ts";
import { toolResults } from "../support/requests.ts";
import { bash, says } from "../support/scenes.ts";

const SECRET = "the answer of another run";

/** What a run with these flags sees of one that has ended (PID 1) and of one that lives (PID 2), and of a child. */
async function seen(machine: Machine, flags: string[], lines: string[]): Promise<string[]> {
  const model = await machine.play({
    "ended run": [says(SECRET)],
    "live run": [bash("until [ -e go ]; do sleep 0.02; done"), says(SECRET)],
    "do it": [bash(...lines), bash("rnix spawn -q 'child chore'", "rnix ps -a"), says("done")],
    "child chore": [says("child done")],
  });
  await machine.ok(["spawn", "ended run", "-q"]);
  await machine.ok(["spawn", "live run", "--detach"]);
  await until(async () => (await machine.ok(["ps"])).stdout.includes("Bash until"), "the live run");
  await machine.ok(["spawn", ...flags, "--no-stdin", "do it"]);
  machine.write("go", "");
  await machine.ok(["wait", "2"]);
  const last = model.requests.findLast(({ text }) => text.includes('"do it"'));
  return toolResults(last ?? expect.unreachable());
}

describe.if(installed("bwrap"))("a run in a sandbox", () => {
  test("sees itself and what is below it, and nothing of other runs", async () => {
    await using machine = new Machine();
    const ended = ["log", "show", "steps", "strace", "wait", "replay", "attach", "diff", "export --html x"];
    const lines = [
      ...ended.map((command) => `rnix ${command} 1`),
      ...["show", "attach", "log"].map((command) => `rnix ${command} 2`),
      ...["rnix morning", "rnix ps -a", "rnix ps", "rnix ps --json"],
      ...["status", "intent", "context"].map((file) => `rnix cat /proc/2/${file}`),
    ];
    const results = await seen(machine, ["--sandbox", "required"], lines);
    for (const [i, line] of lines.entries()) {
      expect([line, results[i]]).not.toEqual([line, expect.stringContaining(SECRET)]);
      expect([line, results[i]]).not.toEqual([line, expect.stringMatching(/ended run|live run/)]);
    }
    const [child, all] = results.slice(lines.length);
    expect(child).toBe("child done");
    expect(all).toContain("do it");
    expect(all).not.toContain("live run");
  });

  test("without one, it sees the runs of the project as its user does", async () => {
    await using machine = new Machine();
    const lines = ["rnix log 1", "rnix ps -a", "rnix cat /proc/2/intent"];
    const results = await seen(machine, ["--sandbox", "off"], lines);
    expect(results.slice(0, 3)).toEqual([
      expect.stringContaining(SECRET),
      expect.stringContaining("ended run"),
      "live run",
    ]);
  });
});
