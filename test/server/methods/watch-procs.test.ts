import { expect, test } from "bun:test";
import type { ProcChanges, StreamEvent } from "../../../src/protocol/methods.ts";
import { watchProcs } from "../../../src/server/methods/watch-procs.ts";
import type { ProcWatcher } from "../../../src/server/services.ts";
import { codeOf } from "../../support/failure.ts";
import { until } from "../../support/until.ts";
import { serve } from "../support/fixture.ts";

function change(number: number, gone: string[] | null = []): ProcChanges {
  return { number, rows: [], gone, asks: null, queues: null };
}

test("a client that is slow misses changes and gets the whole state, once; the end of the feed ends the stream", async () => {
  await using server = await serve("memory");
  let watcher: ProcWatcher | undefined;
  let watching = 0;
  const watch = (one: ProcWatcher) => {
    watcher = one;
    watching++;
    return { whole: () => change(9, null), end: () => void watching-- };
  };
  server.system.procFeed = { open: async () => ({ watch, wake: () => undefined }), wake: () => undefined };
  const sent: StreamEvent[] = [];
  const slow = Promise.withResolvers<void>();
  const gone = new AbortController();
  const out = {
    accept: async () => undefined,
    answer: async () => undefined,
    async send(event: StreamEvent) {
      sent.push(event);
      await slow.promise;
    },
    gone: gone.signal,
  };
  const caller = { unit: () => undefined, service: () => null, gone: gone.signal };
  const over = watchProcs.handle({}, server.system, out, caller);
  await until(() => watcher !== undefined);
  for (const n of [1, 2, 3]) watcher?.send(change(n));
  slow.resolve();
  await until(() => sent.length === 2);
  watcher?.send(change(10));
  await until(() => sent.length === 3);
  const numbers = sent.map((event) => (event.type === "procs" ? event.payload.number : 0));
  expect(numbers).toEqual([1, 9, 10]);
  watcher?.close();
  await over;
  expect(watching).toBe(0);
});

test("it is refused inside a run, and where the server ends with its command", async () => {
  await using server = await serve("memory");
  const client = await server.client();
  expect(await codeOf(client.open("watch_procs", {}))).toBe("UNAVAILABLE");
  const inside = await server.client((await server.detached()).uuid);
  expect(await codeOf(inside.open("watch_procs", {}))).toBe("PERMISSION");
});
