import { expect, test } from "bun:test";
import { IdleWatch } from "../../../src/server/schedule/idle-watch.ts";
import { FakeClock } from "../../support/fake-clock.ts";

function watched(): {
  clock: FakeClock;
  watch: IdleWatch;
  causes: (string | null | undefined)[];
  now: { works: boolean };
} {
  const clock = new FakeClock(0);
  const causes: (string | null | undefined)[] = [];
  const now = { works: false };
  const watch = new IdleWatch(
    { on_idle: "10m" },
    { accept: async ({ cause }) => causes.push(cause) > 0 },
    { clock, works: () => now.works, warn: (text) => expect.unreachable(text) },
  );
  return { clock, watch, causes, now };
}

const MINUTE = 60_000;

test("one event for each time of idleness, counted from the last work", async () => {
  const { clock, watch, causes } = watched();
  await clock.advance(60 * MINUTE);
  expect(causes).toEqual([]);
  watch.worked();
  await clock.advance(9 * MINUTE);
  watch.worked();
  await clock.advance(9 * MINUTE);
  expect(causes).toEqual([]);
  await clock.advance(MINUTE);
  expect(causes).toEqual(["idle since 1970-01-01T01:09:00.000Z"]);
  await clock.advance(60 * MINUTE);
  expect(causes).toHaveLength(1);
  watch.worked();
  await clock.advance(10 * MINUTE);
  expect(causes).toHaveLength(2);
});

test("a long step is work", async () => {
  const { clock, watch, causes, now } = watched();
  watch.worked();
  now.works = true;
  await clock.advance(30 * MINUTE);
  expect(causes).toEqual([]);
  now.works = false;
  await clock.advance(10 * MINUTE);
  expect(causes).toHaveLength(1);
});

test("a closed one waits for nothing", async () => {
  const { clock, watch, causes } = watched();
  watch.worked();
  watch.close();
  await clock.advance(60 * MINUTE);
  expect([causes, clock.waits]).toEqual([[], []]);
});
