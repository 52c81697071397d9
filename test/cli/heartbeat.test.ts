import { expect, test } from "bun:test";
import { Heartbeat } from "../../src/cli/output/heartbeat.ts";
import type { StreamEvent } from "../../src/protocol/methods.ts";
import { FakeIo, REF, receipt } from "./support.ts";

function activity(text: string, since_ms: number): StreamEvent {
  const doing = { kind: "tool", text, since_ms, until_ms: null } as const;
  return { type: "progress", payload: { event: "activity", ...REF, activity: doing } };
}

test("a run that prints nothing for a minute is said to run, with what it does; after its end no more", () => {
  const io = new FakeIo();
  const said: string[] = [];
  let now = 1_000_000;
  const beat = new Heartbeat(
    io,
    (line) => void said.push(line),
    () => now,
  );
  beat.seen(activity("Bash npm test", now));
  const passMinute = (): void => {
    now += 60_000;
    const [timer] = io.timers.splice(0);
    expect(timer?.ms).toBe(60_000);
    timer?.fire();
  };
  passMinute();
  passMinute();
  expect(said).toEqual(["still running: Bash npm test, 1m00s", "still running: Bash npm test, 2m00s"]);
  // A printed line begins the minute anew: there is one timer at any time.
  const note = { event: "notice", ...REF, text: "x" } as const;
  beat.seen({ type: "progress", payload: note });
  expect(io.timers).toHaveLength(1);
  beat.seen({ type: "complete", payload: { event: "complete", ...receipt() } });
  expect(io.timers).toHaveLength(0);
});
