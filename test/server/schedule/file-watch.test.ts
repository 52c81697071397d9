import { expect, test } from "bun:test";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { FileWatch, type WatchState } from "../../../src/server/schedule/file-watch.ts";
import { FakeClock } from "../../support/fake-clock.ts";
import { memoryFolder } from "../../support/memory-folder.ts";
import { until } from "../../support/until.ts";

test("a change during a run that the run did not make is an event soon after the run", async () => {
  const dir = mkdtempSync(join(memoryFolder, "rnix-watch-"));
  mkdirSync(join(dir, "src"));
  const clock = new FakeClock(Date.parse("2026-01-01T00:00:00Z"));
  const saved: WatchState[] = [];
  const causes: (string | null | undefined)[] = [];
  let isLive = true;
  const watch = new FileWatch(
    dir,
    { on_change: ["src/**"], debounce: "100ms" },
    {
      accept: async ({ cause }) => causes.push(cause) > 0,
      isLive: () => isLive,
    },
    {
      clock,
      load: async () => null,
      save: async (state) => void saved.push(structuredClone(state)),
      warn: (text) => expect.unreachable(text),
    },
  );
  try {
    await clock.advance(0);
    await until(() => saved.length === 1, "the first look");
    writeFileSync(join(dir, "src/own.txt"), "by the run");
    writeFileSync(join(dir, "src/mine.txt"), "by its user");
    await watch.ranOver(["src/own.txt"]);
    expect(Object.keys(saved.at(-1)?.files ?? {})).toEqual(["src/own.txt"]);
    // It looks while the run is live, and again by itself afterwards.
    await until(() => clock.waits.length > 0);
    await clock.advance(200);
    await until(() => clock.waits.length > 0);
    isLive = false;
    for (let seconds = 0; seconds < 5 && causes.length === 0; seconds++) {
      await clock.advance(1_000);
      await until(() => clock.waits.length > 0);
    }
    expect(causes).toEqual([expect.stringMatching(/^change 1 /)]);
  } finally {
    await watch.close();
    rmSync(dir, { recursive: true, force: true });
  }
});
