import { describe, expect, test } from "bun:test";
import { ALIVE, Heartbeat } from "../../plugins/_model/heartbeat.ts";
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
  return { arrivals: new Heartbeat(async () => (await reader.read()).value), controller };
}

describe("what arrives", () => {
  test("are the parts, in order, and the end", async () => {
    const { arrivals, controller } = parts();
    controller.enqueue(1);
    const first = arrivals.next();
    controller.enqueue(2);
    expect(await first).toBe(1);
    expect(await arrivals.next()).toBe(2);
    const end = arrivals.next();
    controller.close();
    expect(await end).toBeUndefined();
  });

  test("is a sign of life when bytes come and no part is made of them, once for each wait", async () => {
    const { arrivals, controller } = parts();
    const next = arrivals.next();
    arrivals.heard();
    arrivals.heard();
    expect(await next).toBe(ALIVE);
    // Nobody waits: nothing is owed.
    arrivals.heard();
    await settled();
    const after = arrivals.next();
    await settled();
    controller.enqueue(1);
    expect(await after).toBe(1);
  });

  test("is no sign of life when a part is made of the bytes", async () => {
    const { arrivals, controller } = parts();
    const next = arrivals.next();
    arrivals.heard();
    controller.enqueue(1);
    expect(await next).toBe(1);
    const later = arrivals.next();
    await settled();
    controller.enqueue(2);
    expect(await later).toBe(2);
  });

  test("is the error, also when nobody waited for it", async () => {
    const { arrivals, controller } = parts();
    const next = arrivals.next();
    arrivals.heard();
    expect(await next).toBe(ALIVE);
    controller.error(new Error("gone"));
    await settled();
    await expect(arrivals.next()).rejects.toThrow("gone");
  });

  test("loses and doubles nothing, whatever comes when", async () => {
    for (let seed = 1; seed <= 200; seed++) {
      const random = seeded(seed);
      const { arrivals, controller } = parts();
      const sends = (async () => {
        for (let part = 0; part < 20; ) {
          const what = random();
          if (what < 0.4) controller.enqueue(part++);
          else if (what < 0.8) arrivals.heard();
          if (random() < 0.5) await settled();
          else await Promise.resolve();
        }
        controller.close();
      })();
      const got: unknown[] = [];
      for (let next = await arrivals.next(); next !== undefined; next = await arrivals.next()) {
        if (next !== ALIVE) got.push(next);
        if (random() < 0.3) await settled();
      }
      await sends;
      expect(got, `seed ${seed}`).toEqual(Array.from({ length: 20 }, (_, n) => n));
    }
  });
});
