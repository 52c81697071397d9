import { expect, test } from "bun:test";
import { loggerTo } from "../../../src/lib/logger.ts";
import { SyscallError } from "../../../src/plugin/index.ts";
import { runLog } from "../../../src/server/daemon/run-log.ts";
import { KernelHarness, says, script } from "../../support/kernel.ts";
import { procInfo } from "../../support/samples.ts";

test("the start and the end of a run are logged, with its error; its steps at debug", async () => {
  const lines: string[] = [];
  await using h: KernelHarness = new KernelHarness({
    model: script(says("The answer is in the record.")),
    callbacks: runLog({
      identity: (pid) => h.kernel.processes.identity(pid),
      logger: loggerTo((...line) => lines.push(line.join(" "))),
    }),
  });
  const first = await h.run("go");
  const second = await h.run("again", { context_budget: 1 });
  expect(lines).toEqual([
    `info PID 1 spawned ${first.info.uuid}, agent none on scripted/m: go`,
    "debug PID 1 step 1/100",
    "info PID 1 ended with 0, completed",
    `info PID 2 spawned ${second.info.uuid}, agent none on scripted/m: again`,
    expect.stringMatching(/^info PID 2 ended with 2, budget_exceeded: .+$/),
  ]);
});

/** What is logged for an intent, for an error's message, and for both of a process of another kind. */
function logged(o: { intent?: string; message?: string; kind?: "supervisor" }): string[] {
  const lines: string[] = [];
  const log = runLog({
    identity: () => procInfo({ uuid: "u", agent: "coder", kind: o.kind ?? "agent" }),
    logger: loggerTo((_level, _source, text) => lines.push(text)),
  });
  const error = o.message === undefined ? undefined : new SyscallError("DRIVER", o.message);
  log.onSpawn?.(7, o.intent ?? "", "p", "m");
  log.onStep?.(7, 3, null);
  log.onComplete?.(7, "", { code: 1, reason: "failed", error });
  return lines;
}

test("a process that is not an agent is logged without a model, a run without limit without a last step", () => {
  expect(logged({ intent: "watch", kind: "supervisor" })).toEqual([
    "spawned u, supervisor: watch",
    "step 3",
    "ended with 1, failed",
  ]);
});

test("an intent and a message are one line each, truncated and without control characters", () => {
  const forged = "do it\r\n2026-01-01 [1] info PID 1: ended with 0\u001b[2J\u0085\u2028now";
  const [spawned, , ended] = logged({ intent: forged, message: forged });
  const line = "do it 2026-01-01 [1] info PID 1: ended with 0 [2J now";
  expect([spawned, ended]).toEqual([
    `spawned u, agent coder on p/m: ${line}`,
    `ended with 1, failed: ${line}`,
  ]);

  for (const [intent, shown] of [
    ["x".repeat(80), "x".repeat(80)],
    ["x".repeat(81), `${"x".repeat(80)}…`],
    [`${"x".repeat(79)} ${"y".repeat(1_000_000)}`, `${"x".repeat(79)}…`],
    [`${"x".repeat(79)}😀😀`, `${"x".repeat(79)}…`],
    [`${" ".repeat(1000)}late\n`, "late"],
  ] as const) {
    expect(logged({ intent })[0]).toBe(`spawned u, agent coder on p/m: ${shown}`);
  }
  expect(logged({ message: "m".repeat(1000) })[2]).toBe(`ended with 1, failed: ${"m".repeat(300)}…`);
});
