import { describe, expect, test } from "bun:test";
import { until } from "../../support/until.ts";
import { Machine } from "../support/machine.ts";

const SPAWN = [
  "spawn",
  "--no-daemon",
  "--output",
  "json",
  "--provider",
  "replay",
  "--model",
  "script.yaml",
  "hold",
];

/** A machine whose run holds a program that TERM does not end. */
function machineWithDeafProgram(): Machine {
  const machine = new Machine();
  const command = "trap '' TERM INT; touch held; while :; do sleep 0.1; done";
  machine.write(
    "script.yaml",
    `responses:\n  - tool_calls: [{ name: Bash, input: { command: ${JSON.stringify(command)} } }]\n  - text: done\n`,
  );
  // Longer than any CI service waits.
  machine.config({ grace: "5m" });
  return machine;
}

describe.concurrent("a CI service cancels the job", () => {
  test.each([
    ["GitHub: INT, then TERM", ["SIGINT", "SIGTERM"] as const],
    ["GitLab and Kubernetes: TERM, and more of them", ["SIGTERM", "SIGTERM", "SIGTERM"] as const],
  ])("%s: the run is suspended within 7 s, whatever its program does", async (_service, signals) => {
    await using machine = machineWithDeafProgram();
    const command = machine.start(SPAWN, { env: { CI: "true" } });
    await until(() => machine.has("held"), "the held program");
    const began = performance.now();
    for (const signal of signals) {
      command.signal(signal);
      await until(() => command.stderr.text.includes("suspending the run"), "the first signal's effect");
    }
    const { code, stdout, stderr } = await command.done;
    expect(performance.now() - began).toBeLessThan(7000);
    expect(code).toBe(75);
    const { uuid, exit_reason } = JSON.parse(stdout);
    expect(exit_reason).toBe("suspended");
    expect(stderr).toContain(`rnix resume ${uuid} --no-daemon`);
    expect(machine.strays()).toEqual([]);
  });

  test("without CI a second signal kills, as at a terminal", async () => {
    await using machine = machineWithDeafProgram();
    const command = machine.start(SPAWN);
    await until(() => machine.has("held"), "the held program");
    command.signal("SIGINT");
    await until(() => command.stderr.text.includes("interrupt again"), "the first signal's effect");
    command.signal("SIGINT");
    expect((await command.done).code).toBe(130);
  });
});
