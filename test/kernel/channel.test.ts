import { expect, test } from "bun:test";
import { Channel } from "../../src/kernel/channel.ts";

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

test("a full channel drops the new item and counts it; the last word always arrives", async () => {
  const channel = new Channel<string>(2);
  for (const item of ["a", "b", "c", "d"]) channel.push(item);
  channel.end("complete");
  expect(channel.dropped).toBe(2);
  expect(await all(channel)).toEqual(["a", "b", "complete"]);
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
