import { expect, test } from "bun:test";
import { supervisorLog } from "../../../src/server/methods/shared/run-log.ts";
import { Supervised } from "../../support/supervised.ts";
import { until } from "../../support/until.ts";

test("the log of a supervisor has recorded entries, then live ones, each once", async () => {
  await using s = new Supervised();
  const spec = s.spec("one_for_one", [s.agent("a"), s.agent("b")], { intensity: 1 });
  const pid = await s.spawn(spec);
  const run = { info: s.h.kernel.processes.info(pid), records: s.h.runs };
  await s.fail("a");
  await until(() => s.child(pid, "a").restartInMs !== null);

  const before = s.h.kernel.attachDebug(pid);
  const lines: string[] = [];
  const following = (async () => {
    for await (const { text } of supervisorLog(run, before, new AbortController().signal)) lines.push(text);
  })();
  await until(() => lines.length === 4);
  await s.clock.advance(500);
  await until(() => s.child(pid, "a").state === "running");
  await s.fail("a");
  await following;
  expect(lines).toEqual([
    expect.stringMatching(/^a runs as PID \d+$/),
    expect.stringMatching(/^b runs as PID \d+$/),
    "supervises a, b (one_for_one)",
    expect.stringMatching(
      /^a \(PID \d+\) ended: llm_error \(exit 1\); restart in 500 ms \(1 of 1 in 60000 ms\)$/,
    ),
    "starting a",
    expect.stringMatching(/^a runs as PID \d+$/),
    expect.stringMatching(/^a \(PID \d+\) ended: llm_error \(exit 1\); one restart too many$/),
    "gave up: more than 1 restarts in 60000 ms",
    expect.stringMatching(/^b \(PID \d+\) was stopped: terminated$/),
  ]);

  const later: string[] = [];
  for await (const { text } of supervisorLog(run, undefined, new AbortController().signal)) later.push(text);
  expect(later).toEqual(lines);
});
