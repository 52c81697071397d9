import { expect, test } from "bun:test";
import { EffectWindows } from "../../../src/kernel/files/effect-windows.ts";

/** A parent and its child, at a clock that a test sets. */
function family() {
  const [parent, child] = [{}, {}];
  const clock = { ms: 0, now: () => clock.ms };
  const windows = new EffectWindows<object>(clock, {
    ancestry: (proc) => (proc === child ? [child, parent] : [proc]),
  });
  /** Opens a window of this time. */
  const during = (proc: object, from: number, to: number, what: "call" | "program" = "call"): void => {
    clock.ms = from;
    const over = windows.begin(proc, what);
    clock.ms = to;
    over();
    over();
  };
  return { windows, clock, parent, child, during };
}

test("a change counts while an effect is under way, with a little slack for the file system's clock", () => {
  const { windows, parent, clock, during } = family();
  expect(windows.covers(parent, 0)).toBe(false);
  during(parent, 1000, 2000);
  during(parent, 5000, 6000);
  expect([980, 1500, 2020, 5500].map((ms) => windows.covers(parent, ms))).toEqual([true, true, true, true]);
  expect([900, 2100, 4900, 6100].map((ms) => windows.covers(parent, ms))).toEqual([
    false,
    false,
    false,
    false,
  ]);
  clock.ms = 9000;
  windows.begin(parent, "call");
  expect([windows.covers(parent, 9500), windows.covers(parent, 8000)]).toEqual([true, false]);
});

test("overlapping windows are merged until the last of them closes", () => {
  const { windows, parent, clock } = family();
  clock.ms = 1000;
  const [first, second] = [windows.begin(parent, "call"), windows.begin(parent, "program")];
  clock.ms = 2000;
  first();
  clock.ms = 3000;
  second();
  expect([windows.covers(parent, 2500), windows.covers(parent, 3100)]).toEqual([true, false]);
});

test("a child's windows are also its parent's, not the reverse", () => {
  const { windows, parent, child, during } = family();
  during(child, 1000, 2000, "program");
  during(parent, 5000, 6000);
  expect([windows.covers(parent, 1500), windows.covers(child, 5500)]).toEqual([true, false]);
  expect([windows.mayHide(parent, 3000), windows.mayHide(parent, 500)]).toEqual([true, false]);
});

test("a change that no tool reported is attributed to a program", () => {
  const { windows, parent, during } = family();
  during(parent, 1000, 2000);
  expect(windows.mayHide(parent, 3000)).toBe(false);
});

test("thousands of windows are merged into longer ones that cover them all", () => {
  const { windows, parent, during } = family();
  for (let i = 1; i <= 3000; i++) during(parent, i * 1000, i * 1000 + 1);
  expect([1000, 2_999_000, 3_000_000].map((ms) => windows.covers(parent, ms))).toEqual([true, true, true]);
  expect(windows.covers(parent, 2_999_500)).toBe(false);
});

test("what changes while a call waits for a person is not the run's, and the run is not over", () => {
  const { windows, parent, child, clock } = family();
  clock.ms = 1000;
  const over = windows.begin(child, "call");
  clock.ms = 2000;
  const answered = windows.pause(child);
  expect(windows.isOpen(child)).toBe(true);
  clock.ms = 9000;
  answered();
  clock.ms = 10_000;
  over();
  for (const proc of [child, parent]) {
    expect([1500, 5000, 9500].map((ms) => windows.covers(proc, ms))).toEqual([true, false, true]);
    expect(windows.isOpen(proc)).toBe(false);
  }
});

test("a call that waits hides nothing of another that is under way", () => {
  const { windows, parent, child, clock } = family();
  clock.ms = 1000;
  windows.begin(parent, "program");
  windows.begin(child, "call");
  windows.pause(child);
  clock.ms = 5000;
  expect(windows.covers(parent, 4000)).toBe(true);
  expect(windows.covers(child, 4000)).toBe(false);
});
