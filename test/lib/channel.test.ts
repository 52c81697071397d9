import { describe, expect, test } from "bun:test";
import { joinEvents, supersedes } from "../../src/kernel/events/process-events.ts";
import { Channel } from "../../src/lib/channel.ts";
import type { LiveEvent } from "../../src/run/live-event.ts";

async function all<T>(channel: Channel<T>): Promise<T[]> {
  const items: T[] = [];
  for await (const item of channel) items.push(item);
  return items;
}

test("items arrive in order, then the end", async () => {
  const channel = new Channel<number>(8);
  channel.push(1);
  const reading = all(channel);
  channel.push(2);
  channel.end();
  expect(await reading).toEqual([1, 2]);
});

test("a full channel drops the new item and counts it; the last item always arrives", async () => {
  const channel = new Channel<string>(2);
  for (const item of ["a", "b", "c", "d"]) channel.push(item);
  channel.end("complete");
  expect(channel.dropped).toBe(2);
  expect(await all(channel)).toEqual(["a", "b", "complete"]);
});

describe("a channel that joins", () => {
  const step = (from: number, to = from): LiveEvent[] =>
    Array.from({ length: to - from + 1 }, (_, at) => ({
      event: "text_delta",
      step: 1,
      text: `${from + at} `,
    }));
  const text = (events: readonly LiveEvent[]): string =>
    events.map((event) => (event.event === "text_delta" ? event.text : `<${event.event}>`)).join("");

  test("gives each delta to a reader that keeps up, and every character to one that is behind", async () => {
    const channel = new Channel<LiveEvent>(8, undefined, { join: joinEvents });
    for (const event of step(1, 1000)) channel.push(event);
    channel.end({ event: "notice", text: "" });
    const items = await all(channel);
    expect(channel.dropped).toBe(0);
    expect(text(items)).toBe(`${text(step(1, 1000))}<notice>`);
    expect(items.slice(0, 3)).toEqual(step(1, 3));
    expect(items).toHaveLength(5);
  });

  test("separates deltas of different steps, and text from reasoning", async () => {
    const channel = new Channel<LiveEvent>(2, undefined, { join: joinEvents });
    channel.push({ event: "text_delta", step: 1, text: "a" });
    channel.push({ event: "reasoning_delta", step: 1, text: "b" });
    channel.push({ event: "text_delta", step: 1, text: "c" });
    channel.push({ event: "reasoning_delta", step: 2, text: "d" });
    channel.push({ event: "log", entry: { ts: "", step: 1, kind: "text", text: "e" } });
    channel.end();
    expect(channel.dropped).toBe(3);
    expect(await all(channel)).toEqual([
      { event: "text_delta", step: 1, text: "a" },
      { event: "reasoning_delta", step: 1, text: "b" },
    ]);
  });

  test("keeps the newest state for a reader that is behind, in order with the rest", async () => {
    const channel = new Channel<LiveEvent>(8, undefined, { join: joinEvents, supersedes });
    const note = (text: string): LiveEvent => ({ event: "notice", text });
    const doing = (text: string): LiveEvent => ({
      event: "activity",
      activity: { kind: "model", text, since_ms: 0, until_ms: null },
    });
    for (const text of ["a", "b", "c", "d"]) channel.push(note(text));
    for (let i = 1; i <= 1000; i++) channel.push(doing(String(i)));
    channel.push(note("e"));
    channel.push(doing("last"));
    channel.end();
    expect(channel.dropped).toBe(0);
    expect(await all(channel)).toEqual([...["a", "b", "c", "d", "e"].map(note), doing("last")]);
  });

  test("joins the output of one call to its newest, also of much output", async () => {
    const channel = new Channel<LiveEvent>(2, undefined, { join: joinEvents, supersedes });
    const output = (call_id: string, text: string, lines: number): LiveEvent => ({
      event: "tool_output",
      step: 1,
      call_id,
      text,
      lines,
    });
    channel.push(output("a", "1\n", 1));
    for (let i = 1; i <= 100_000; i++) channel.push(output("b", `${i}\n`, i));
    channel.end();
    const [first, last] = await all(channel);
    expect(first).toEqual(output("a", "1\n", 1));
    expect(last).toMatchObject({ call_id: "b", lines: 100_000 });
    const text = last?.event === "tool_output" ? last.text : "";
    expect(text.length).toBe(16 * 1024);
    expect(text).toEndWith("\n99999\n100000\n");
  });

  test("is bounded: what exceeds the bound is dropped and counted", async () => {
    const channel = new Channel<LiveEvent>(16, undefined, { join: joinEvents });
    const piece = "x".repeat(1000);
    for (let i = 0; i < 100_000; i++) channel.push({ event: "text_delta", step: 1, text: piece });
    channel.end();
    const kept = text(await all(channel)).length;
    expect(kept).toBeGreaterThan(100_000);
    expect(kept).toBeLessThan(16 * 16 * 1024 + 1);
    expect(kept / 1000 + channel.dropped).toBe(100_000);
  });
});

test("after the end nothing more is taken", async () => {
  const channel = new Channel<number>();
  channel.end(1);
  channel.push(2);
  channel.end(3);
  expect(await all(channel)).toEqual([1]);
});

test("a reader that leaves closes the channel and tells its owner once", async () => {
  let closed = 0;
  const channel = new Channel<number>(4, () => closed++);
  channel.push(1);
  for await (const item of channel) {
    expect(item).toBe(1);
    break;
  }
  channel.push(2);
  channel.end();
  expect({ closed, ended: channel.ended }).toEqual({ closed: 1, ended: true });
});
