import { expect, test } from "bun:test";
import { GcHint } from "../../../src/server/daemon/daemon.ts";
import { FakeClock } from "../../support/fake-clock.ts";

test("every tenth connection that ends triggers a garbage collection", () => {
  let collected = 0;
  const hint = new GcHint({ clock: new FakeClock(), collect: () => void collected++ });
  const seen = Array.from({ length: 25 }, () => {
    hint.served();
    return collected;
  });
  expect([seen[8], seen[9], seen[18], seen[19], seen[24]]).toEqual([0, 1, 1, 2, 2]);
  hint.close();
});

test("a daemon that has worked and waits drops its compiled code, once", async () => {
  const clock = new FakeClock();
  let [cpu, shrunk] = [0, 0];
  const hint = new GcHint({ clock, shrink: () => void shrunk++, cpuMs: () => cpu });
  const after = async (ms: number): Promise<number> => {
    cpu += ms;
    await clock.advance(60_000);
    return shrunk;
  };
  expect(await after(500)).toBe(0);
  const seen = [];
  for (const ms of [200, 30, 30, 200, 0, 0]) seen.push(await after(ms));
  expect(seen).toEqual([0, 1, 1, 1, 2, 2]);
  hint.close();
  expect([await after(1000), clock.pending]).toEqual([2, 0]);
});
