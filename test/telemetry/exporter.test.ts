import { expect, test } from "bun:test";
import { traceOf, traceparentOf } from "../../src/lib/trace-context.ts";
import { Sender, SpanQueue } from "../../src/telemetry/exporter.ts";
import { Instruments } from "../../src/telemetry/instruments.ts";
import { FakeClock } from "../support/fake-clock.ts";
import { until } from "../support/until.ts";

test("the queue is bounded, sends in batches, and counts each span once", async () => {
  const clock = new FakeClock();
  const counted = { sent: 0, dropped: 0 };
  const batches: number[] = [];
  const gate = Promise.withResolvers<boolean>();
  const queue = new SpanQueue(
    { queue: 4, batch: 2, delayMs: 100 },
    {
      clock,
      stop: new AbortController().signal,
      send: (spans) => {
        batches.push(spans.length);
        return gate.promise;
      },
      count: (outcome, spans) => {
        counted[outcome] += spans;
      },
    },
  );
  for (let i = 0; i < 9; i++) queue.add({ name: `${i}` });
  // Two are on their way, four wait, three had no room.
  expect([batches, counted]).toEqual([[2], { sent: 0, dropped: 3 }]);
  gate.resolve(true);
  await queue.close();
  expect([batches, counted]).toEqual([[2, 2, 2], { sent: 6, dropped: 3 }]);
});

test("a temporary failure is retried five times in all, as long as the collector asks for; another is not", async () => {
  const clock = new FakeClock();
  const answers: Response[] = [];
  let requests = 0;
  const server = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    fetch: () => {
      requests++;
      return answers.shift() ?? new Response(null, { status: 503, headers: { "retry-after": "7" } });
    },
  });
  const warnings: string[] = [];
  const stop = new AbortController();
  const closing = new AbortController();
  const ports = {
    ...{ clock, random: () => 0.5, warn: (text: string) => warnings.push(text) },
    ...{ stop: stop.signal, closing: closing.signal },
  };
  const url = `http://127.0.0.1:${server.port}/v1/traces`;
  const target = { url, headers: {}, protocol: "http/json", gzip: false, timeoutMs: 5000 } as const;
  const sender = new Sender(target, "TracesRequest", ports);
  try {
    const sent = sender.send({});
    for (let attempt = 1; attempt < 5; attempt++) {
      await until(() => requests === attempt && clock.pending > 0);
      await clock.advance(7000);
    }
    expect(await sent).toBe(false);
    expect(requests).toBe(5);
    answers.push(new Response(null, { status: 413 }));
    expect(await sender.send({})).toBe(false);
    expect([requests, warnings]).toEqual([6, [`${url}: what waits is dropped: it answered 503`]]);
    answers.push(new Response());
    expect(await sender.send({})).toBe(true);
    // At the end what waits for a retry is tried once more, and nothing else is.
    const last = sender.send({});
    await until(() => requests === 8 && clock.pending > 0);
    closing.abort();
    expect(await last).toBe(false);
    expect(await sender.send({})).toBe(false);
    expect(requests).toBe(10);
    stop.abort();
    expect(await sender.send({})).toBe(false);
    expect(requests).toBe(10);
  } finally {
    await server.stop(true);
  }
});

test("labels beyond a thousand sets are counted together", () => {
  const instruments = new Instruments();
  for (let i = 0; i < 1500; i++) instruments.add("rnix.tool.calls", 1, { state: `${i}` });
  const points = instruments.points("rnix.tool.calls");
  expect(points).toHaveLength(1001);
  expect(points.at(-1)).toMatchObject({ sum: 500, labels: { "otel.metric.overflow": "true" } });
});

test("a trace is the caller's, or the run's own; a wrong TRACEPARENT counts as none", () => {
  const uuid = "01a20922-f159-7663-9c6e-eecfa1123914";
  const own = { traceId: uuid.replaceAll("-", ""), parentId: undefined, isSampled: true };
  const [trace, span] = ["0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"];
  expect(traceOf({ uuid, traceparent: undefined })).toEqual(own);
  for (const wrong of [
    "",
    "x",
    `ff-${trace}-${span}-01`,
    `00-${"0".repeat(32)}-${span}-01`,
    `00-${trace}-${span}`,
  ])
    expect(traceOf({ uuid, traceparent: wrong })).toEqual(own);
  expect(traceOf({ uuid, traceparent: `cc-${trace}-${span}-03-what` })).toEqual({
    traceId: trace,
    parentId: span,
    isSampled: true,
  });
  const unsampled = { uuid, traceparent: `00-${trace}-${span}-00` };
  expect(traceparentOf(unsampled, uuid)).toMatch(new RegExp(`^00-${trace}-[0-9a-f]{16}-00$`));
});
