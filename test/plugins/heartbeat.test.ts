import { describe, expect, test } from "bun:test";
import { ALIVE, Heartbeat } from "../../plugins/_model/answer-parts.ts";
import { settled } from "../support/fake-clock.ts";
import { seeded } from "../support/seeded.ts";

/** A stream whose parts the test hands out. */
function parts() {
  let controller: ReadableStreamDefaultController<number> | undefined;
  const stream = new ReadableStream<number>({
    start(made) {
      controller = made;
    },
  });
  if (controller === undefined) throw new Error("the stream was not started");
  const reader = stream.getReader();
  return { heartbeat: new Heartbeat(async () => (await reader.read()).value), controller };
}

describe("the heartbeat of a stream", () => {
  test("returns the parts in order, then the end", async () => {
    const { heartbeat, controller } = parts();
    controller.enqueue(1);
    const first = heartbeat.next();
    controller.enqueue(2);
    expect(await first).toBe(1);
    expect(await heartbeat.next()).toBe(2);
    const end = heartbeat.next();
    controller.close();
    expect(await end).toBeUndefined();
  });

  test("returns ALIVE once for a call when bytes arrive that complete no part", async () => {
    const { heartbeat, controller } = parts();
    const next = heartbeat.next();
    heartbeat.onBytes();
    heartbeat.onBytes();
    expect(await next).toBe(ALIVE);
    // No call is pending.
    heartbeat.onBytes();
    await settled();
    const after = heartbeat.next();
    await settled();
    controller.enqueue(1);
    expect(await after).toBe(1);
  });

  test("does not return ALIVE when the bytes complete a part", async () => {
    const { heartbeat, controller } = parts();
    const next = heartbeat.next();
    heartbeat.onBytes();
    controller.enqueue(1);
    expect(await next).toBe(1);
    const later = heartbeat.next();
    await settled();
    controller.enqueue(2);
    expect(await later).toBe(2);
  });

  test("rejects with the error, also when no call was pending", async () => {
    const { heartbeat, controller } = parts();
    const next = heartbeat.next();
    heartbeat.onBytes();
    expect(await next).toBe(ALIVE);
    controller.error(new Error("gone"));
    await settled();
    await expect(heartbeat.next()).rejects.toThrow("gone");
  });

  test("loses and duplicates no part in any order of bytes, parts and calls", async () => {
    for (let seed = 1; seed <= 200; seed++) {
      const random = seeded(seed);
      const { heartbeat, controller } = parts();
      const sends = (async () => {
        for (let part = 0; part < 20; ) {
          const what = random();
          if (what < 0.4) controller.enqueue(part++);
          else if (what < 0.8) heartbeat.onBytes();
          if (random() < 0.5) await settled();
          else await Promise.resolve();
        }
        controller.close();
      })();
      const got: unknown[] = [];
      for (let next = await heartbeat.next(); next !== undefined; next = await heartbeat.next()) {
        if (next !== ALIVE) got.push(next);
        if (random() < 0.3) await settled();
      }
      await sends;
      expect(got, `seed ${seed}`).toEqual(Array.from({ length: 20 }, (_, n) => n));
    }
  });
});
