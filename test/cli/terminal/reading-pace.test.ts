import { describe, expect, test } from "bun:test";
import { ReadingPace } from "../../../src/cli/terminal/reading-pace.ts";
import type { StreamEvent } from "../../../src/protocol/methods.ts";
import { FakeClock } from "../../support/fake-clock.ts";
import { delta } from "../support.ts";
import { call, complete, ended, SPAWNED, started } from "./run-events.ts";

const BASH = call("Bash", { command: "ls" }, { result: "a\nb" });
const EVENTS = [SPAWNED, delta(1, "I look. 日本語."), started(BASH), ended(BASH), complete()];

async function* stream(events: readonly StreamEvent[]): AsyncGenerator<StreamEvent> {
  yield* events;
}

/** What is shown, and when. */
async function played(events: readonly StreamEvent[], o: { hurryAt?: number } = {}) {
  const clock = new FakeClock();
  const pace = new ReadingPace(clock);
  const began = clock.monotonic();
  const shown: { type: string; ms: number; text: string }[] = [];
  let over = false;
  const reading = (async () => {
    for await (const event of pace.play(stream(events))) {
      const text = event.type === "text_delta" ? event.payload.text : "";
      shown.push({ type: event.type, ms: clock.monotonic() - began, text });
    }
    over = true;
  })();
  for (let ms = 0; !over && ms < 60_000; ms += 5) {
    if (ms === o.hurryAt) pace.hurry();
    await clock.advance(5);
  }
  await reading;
  return shown;
}

describe("a run at reading pace", () => {
  test("types its text, waits until it is read, and shows each call run for a moment", async () => {
    const shown = await played(EVENTS);
    const texts = shown.filter(({ type }) => type === "text_delta");
    expect(texts.length).toBeGreaterThan(3);
    expect(texts.map(({ text }) => text).join("")).toBe("I look. 日本語.");
    const [start, end] = shown.filter(({ type }) => type === "log_entry").map(({ ms }) => ms);
    expect((start ?? 0) - (texts.at(-1)?.ms ?? 0)).toBeGreaterThan(150);
    expect((end ?? 0) - (start ?? 0)).toBeGreaterThanOrEqual(500);
    expect(shown.at(-1)).toMatchObject({ type: "complete" });
  });

  test("hurried, it shows the rest at once", async () => {
    const shown = await played(EVENTS, { hurryAt: 50 });
    expect(shown.map(({ type }) => type).slice(-3)).toEqual(["log_entry", "log_entry", "complete"]);
    expect(shown.at(-1)?.ms).toBeLessThan(200);
  });

  test("fails with the error of its events", async () => {
    async function* broken(): AsyncGenerator<StreamEvent> {
      yield SPAWNED;
      throw new Error("lost");
    }
    const pace = new ReadingPace(new FakeClock());
    await expect(Array.fromAsync(pace.play(broken()))).rejects.toThrow("lost");
  });
});
