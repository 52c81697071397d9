import { expect, test } from "bun:test";
import { EventBatcher } from "../../src/daemons/command-unit.ts";
import { FakeClock } from "../support/fake-clock.ts";

function batcher(stallMs?: number) {
  const clock = new FakeClock();
  const events: string[] = [];
  return { clock, events, batcher: new EventBatcher({ clock, stallMs, emit: (text) => events.push(text) }) };
}

test("lines within 200 ms are one event", async () => {
  const { clock, events, batcher: lines } = batcher();
  lines.add("a");
  await clock.advance(150);
  lines.add("b");
  expect(events).toEqual([]);
  await clock.advance(50);
  expect(events).toEqual(["a\nb"]);
  lines.add("c");
  await clock.advance(200);
  expect(events).toEqual(["a\nb", "c"]);
  expect(lines.close()).toBeNull();
});

test("a long line and a long event are cut, and what an event leaves out is counted", async () => {
  const { clock, events, batcher: lines } = batcher();
  lines.add("x".repeat(2000));
  await clock.advance(200);
  expect(events[0]).toBe(`${"x".repeat(500)}…`);
  for (let n = 1; n <= 1000; n++) lines.add(`line ${n}`);
  await clock.advance(200);
  const [, event = ""] = events;
  expect(event.length).toBeLessThanOrEqual(3100);
  const shown = event.split("\n").length - 1;
  expect(event).toStartWith(`[${1000 - shown} events suppressed]\n`);
  expect(event).toEndWith("line 1000");
  lines.close();
});

test("a flood wakes ten times, then once each 2 s, and no line is lost uncounted", async () => {
  const { clock, events, batcher: lines } = batcher();
  for (let tenth = 0; tenth < 600; tenth++) {
    lines.add(`${tenth}`);
    await clock.advance(100);
  }
  // A minute: ten at once, thirty refills.
  expect(events.length).toBeLessThanOrEqual(41);
  expect(events.length).toBeGreaterThanOrEqual(38);
  const rest = lines.close();
  const counted = [...events, ...(rest === null ? [] : [rest])].flatMap((event) =>
    event.split("\n").map((line) => Number(/^\[(\d+) events/.exec(line)?.[1] ?? 1)),
  );
  expect(counted.reduce((sum, n) => sum + n, 0)).toBe(600);
});

test("an hour has a budget of wakes", async () => {
  const { clock, events, batcher: lines } = batcher();
  for (let second = 0; second < 3600; second += 2) {
    lines.add(`${second}`);
    await clock.advance(2000);
  }
  expect(events.length).toBe(120);
  for (let second = 0; second < 600; second += 2) {
    lines.add(`later ${second}`);
    await clock.advance(2000);
  }
  expect(events.length).toBeGreaterThan(120);
  lines.close();
});

test("a silence is one event, until the next line", async () => {
  const { clock, events, batcher: lines } = batcher(60_000);
  await clock.advance(200_000);
  expect(events).toEqual(["[no output for 60 s]"]);
  lines.add("again");
  await clock.advance(100_000);
  expect(events).toEqual(["[no output for 60 s]", "again", "[no output for 60 s]"]);
  lines.close();
  expect(clock.pending).toBe(0);
});
