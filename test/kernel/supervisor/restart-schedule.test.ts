import { expect, test } from "bun:test";
import { RestartDelays } from "../../../src/kernel/supervisor/restart-policy.ts";
import { type PendingRestart, RestartSchedule } from "../../../src/kernel/supervisor/restart-schedule.ts";
import { type Slot, slotOf } from "../../../src/kernel/supervisor/slot.ts";
import { FakeClock } from "../../support/fake-clock.ts";

/** Two slots that fall together, of a limit of two in ten seconds, and what has come due. */
function schedule() {
  const clock = new FakeClock();
  const rules = { backoff: { firstMs: 500, longestMs: 500 }, resetAfterMs: 10_000 };
  const slot = (id: string): Slot =>
    slotOf(
      { id, start: { kind: "agent", plan: () => Promise.reject(new Error("not here")) } },
      new RestartDelays(rules, () => 0),
    );
  const [a, b] = [slot("a"), slot("b")];
  const due: PendingRestart[] = [];
  const limit = { intensity: 2, periodMs: 10_000 };
  const group = (): Slot[] => [a, b];
  const restarts = new RestartSchedule({ limit, clock, own: clock, group, due: (one) => due.push(one) });
  return { clock, a, b, due, restarts };
}

test("a clean end that takes a counted one over is not counted once more", async () => {
  const { clock, a, b, due, restarts } = schedule();
  restarts.add(b, restarts.onExit(b, false, 0) ?? -1, true);
  restarts.add(a, restarts.onExit(a, true, 0) ?? -1, false);
  await clock.advance(500);
  expect(due.map(({ slot }) => slot.spec.id)).toEqual(["a"]);
  expect(due.map((one) => restarts.take(one))).toEqual([true]);
  expect(restarts.count).toBe(1);
  expect(clock.pending).toBe(0);
});

test("a restart that was replaced or cleared is no longer pending", async () => {
  const { clock, a, b, due, restarts } = schedule();
  restarts.add(b, 100, true);
  await clock.advance(100);
  restarts.add(a, 100, true);
  expect(due.map((one) => restarts.take(one))).toEqual([false]);
  restarts.clear();
  await clock.advance(1_000);
  expect(due).toHaveLength(1);
  expect(clock.pending).toBe(0);
});

test("a clean end waits once more where another restart has used its slot", async () => {
  const { clock, a, b, due, restarts } = schedule();
  restarts.onExit(b, false, 0);
  restarts.add(a, restarts.onExit(a, true, 0) ?? -1, false);
  restarts.onExit(b, false, 0);
  await clock.advance(500);
  expect(due.map((one) => restarts.take(one))).toEqual([false]);
  expect(restarts.dueInMs(a)).toBe(9_501);
  await clock.advance(9_501);
  expect(due.slice(1).map((one) => restarts.take(one))).toEqual([true]);
});
