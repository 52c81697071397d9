import { expect, test } from "bun:test";
import { calls, KernelHarness, says, script, toolDevice } from "../../support/kernel.ts";

test("a driver that needs the history reads the runs' records, its own too", async () => {
  const found: unknown[] = [];
  const look = toolDevice("Look", async (_input, _signal, { history, process }) => {
    const [self] = (await history?.runs({ uuid: process.uuid, limit: 1 })) ?? [];
    found.push(self?.intent, self?.ended_at_ms, (await history?.steps(process.uuid, 0, 9))?.length);
    return "looked";
  });
  await using h = new KernelHarness({
    model: script(calls(["Look", {}]), calls(["Look", {}]), says("done")),
    devices: { "/dev/look": look },
    needs: { "/dev/look": ["history"] },
  });
  await h.run("go and look");
  expect(found).toEqual(["go and look", null, 0, "go and look", null, 1]);
});
