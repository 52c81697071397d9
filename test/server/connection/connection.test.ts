import { describe, expect, test } from "bun:test";
import { Duplex, PassThrough } from "node:stream";
import { Client, isServerError } from "../../../src/client/client.ts";
import { overStream } from "../../../src/client/session.ts";
import type { ExitStatus } from "../../../src/kernel/types.ts";
import type { ProcessOwner } from "../../../src/os/process-table.ts";
import { FrameBudget } from "../../../src/protocol/frame.ts";
import { MAX_REQUEST_BYTES, type StreamEvent } from "../../../src/protocol/methods.ts";
import { Connection } from "../../../src/server/connection/connection.ts";
import { MAX_CONNECTIONS, MAX_WITH_RUNS } from "../../../src/server/server.ts";
import { FakeClock } from "../../support/fake-clock.ts";
import { until } from "../../support/until.ts";
import { RUN, serve, TRANSPORTS } from "../support/fixture.ts";
import { refusal, wireCode } from "../support/refusal.ts";

const EVENTS = 100_000;

describe("a slow client", () => {
  for (const transport of TRANSPORTS) {
    test(`does not slow a run of ${EVENTS} events, and gets the end and the number of missed events (${transport})`, async () => {
      await using server = await serve(transport);
      const stream = await server.connect();
      const client = new Client(overStream(stream));
      const run = await client.open("spawn", RUN);
      stream.pause();
      for (let i = 0; i < EVENTS; i++) {
        server.kernel.emit(run.answer.pid, {
          event: "text_delta",
          step: 1,
          text: `${i} ${"x".repeat(1000)}\n`,
        });
        if (i % 1000 === 0) await new Promise((resolve) => setImmediate(resolve));
      }
      await server.kernel.finish(run.answer.pid, { code: 0, reason: "completed", result: "done" });

      let text = "";
      let dropped: number | undefined;
      for await (const event of run) {
        if (event.type === "text_delta") text += event.payload.text;
        if (event.type === "complete") dropped = event.dropped;
      }
      const deltas = text
        .trimEnd()
        .split("\n")
        .map((line) => Number.parseInt(line, 10));
      // What was held for it, and in the pipes between, is what it gets in the end, in its order.
      expect(deltas.length).toBeGreaterThan(256);
      expect(deltas.length).toBeLessThan(EVENTS / 10);
      expect(deltas).toEqual(deltas.toSorted((a, b) => a - b));
      expect(deltas.length + (dropped ?? 0)).toBe(EVENTS);
    });
  }

  test("that reads nothing for ten minutes is disconnected, and the run continues", async () => {
    const clock = new FakeClock();
    await using server = await serve("socket", { clock, stallMs: 600_000 });
    const stream = await server.connect();
    const { answer } = await new Client(overStream(stream)).open("spawn", RUN);
    stream.pause();
    const flood = (): void =>
      server.kernel.emit(answer.pid, { event: "text_delta", step: 1, text: "x".repeat(100_000) });
    await until(() => {
      flood();
      return clock.pending > 0;
    });
    await clock.advance(599_999);
    expect(server.server.connections).toBe(1);
    await clock.advance(1);
    await until(() => server.server.connections === 0);
    expect(server.kernel.watchers(answer.pid)).toBe(0);
    expect(server.kernel.processes.count).toBe(1);
  });
});

test("a client that disconnects releases its share of the buffer for unfinished requests", async () => {
  const room = new FrameBudget(10);
  const stream = new PassThrough();
  const connection = new Connection(stream, new FakeClock(), { room });
  const served = connection.serve(async () => "next");
  stream.write("1234567890");
  await until(() => {
    const full = !room.take(1);
    if (!full) room.give(1);
    return full;
  });
  stream.destroy();
  await served;
  expect(room.take(10)).toBe(true);
});

test("events of one burst are written together, after the run's own work", async () => {
  const written: string[] = [];
  const stream = new Duplex({
    read: () => undefined,
    write(chunk: Buffer, _encoding, done) {
      written.push(chunk.toString());
      done();
    },
  });
  const connection = new Connection(stream, new FakeClock());
  const event = (text: string): StreamEvent => ({
    type: "text_delta",
    payload: { pid: 1, uuid: "u", step: 1, text },
  });
  let toldAtOnce = -1;
  const served = connection.serve(async (_frame, peer) => {
    await peer.send({ ok: true, payload: {} });
    for (const text of ["a", "b", "c"]) await peer.send(event(text));
    toldAtOnce = written.length;
    await new Promise((resolve) => setImmediate(resolve));
    await peer.send(event("d"));
    await peer.send(event("x".repeat(100_000)));
    await peer.send(event("last"));
    return "close";
  });
  stream.push("{}\n");
  await served;
  expect(toldAtOnce).toBe(1);
  const texts = written.map((piece) =>
    piece
      .trimEnd()
      .split("\n")
      .map((line) => JSON.parse(line).payload.text),
  );
  expect(texts).toEqual([[undefined], ["a", "b", "c"], ["d", "x".repeat(100_000)], ["last"]]);
});

describe("a client that disconnects", () => {
  for (const transport of TRANSPORTS) {
    test(`in the middle of its stream does not end the run (${transport})`, async () => {
      await using server = await serve(transport);
      const client = await server.client();
      const run = await client.open("spawn", RUN);
      expect(server.kernel.watchers(run.answer.pid)).toBe(1);
      client.close();
      await until(() => {
        server.kernel.emit(run.answer.pid, { event: "text_delta", step: 1, text: "x" });
        return server.kernel.watchers(run.answer.pid) === 0 && server.server.connections === 0;
      });
      expect(server.kernel.processes.count).toBe(1);
      expect(server.logged).toEqual([]);
    });
  }

  test("while it waits for a run is ignored at the run's end", async () => {
    await using server = await serve();
    const first = await server.client();
    const { answer } = await first.open("spawn", { ...RUN, detach: true });
    const waiter = await server.client();
    const waiting = waiter.request("wait", { pid: answer.pid }, { timeoutMs: null });
    await until(() => server.kernel.watchers(answer.pid) === 1);
    waiter.close();
    expect((await refusal(waiting)).code).toBe("CLOSED");
    // It has only closed its side, for all that can be seen: `nc -U` would still read the answer.
    await server.kernel.finish(answer.pid, { code: 0, reason: "completed" });
    first.close();
    await until(() => server.server.connections === 0);
    expect(server.logged).toEqual([]);
  });

  test("before its request is complete releases everything", async () => {
    await using server = await serve();
    const stream = await server.connect();
    stream.write('{"method":"spa');
    await until(() => server.server.connections === 1);
    stream.destroy();
    await until(() => server.server.connections === 0);
    expect(server.kernel.processes.count).toBe(0);
    expect(server.logged).toEqual([]);
  });
});

describe("many clients", () => {
  test("fifty at once, each with requests and a run, are all served", async () => {
    await using server = await serve();
    const results = await Promise.all(
      Array.from({ length: 50 }, async (_, i) => {
        const client = await server.client();
        await client.request("ping", {});
        await client.request("list_procs", {});
        const run = await client.open("spawn", { ...RUN, intent: `echo words ${i}` });
        for await (const event of run) if (event.type === "complete") return event.payload.result;
        return null;
      }),
    );
    expect(results).toEqual(Array.from({ length: 50 }, (_, i) => `words ${i}`));
    await until(() => server.server.connections === 0);
  });

  test("above the limit get an error", async () => {
    await using server = await serve("memory");
    const streams = await Promise.all(Array.from({ length: MAX_CONNECTIONS }, () => server.connect()));
    const client = await server.client();
    expect((await refusal(client.request("ping", {}))).code).toBe("UNAVAILABLE");
    for (const stream of streams) stream.destroy();
    await until(() => server.server.connections === 0);
  });

  test.if(process.platform === "linux")("of runs leave connections to the user", async () => {
    await using server = await serve("socket");
    let origin: ProcessOwner = { uuid: "u-1" };
    server.system.ownerOf = () => origin;
    const answer = async (): Promise<unknown> => await (await server.client()).request("list_procs", {});
    for (let i = 0; i < MAX_WITH_RUNS; i++) await server.connect();
    await until(() => server.server.connections === MAX_WITH_RUNS);
    for (const of of [{ uuid: "u-1" }, "unknown run", "other kernel"] as const) {
      origin = of;
      const refused = await refusal(answer());
      expect([refused.code, isServerError(refused)]).toEqual(["UNAVAILABLE", true]);
    }
    origin = "no run";
    expect(await answer()).toEqual({ processes: [] });
  });
});

describe("a line too long", () => {
  test("is answered TOO_LARGE as soon as it exceeds the limit, and the connection stays open", async () => {
    await using server = await serve();
    const stream = await server.connect();
    const client = new Client(overStream(stream));
    const huge = "x".repeat(MAX_REQUEST_BYTES);
    const refused = client.open("spawn", { ...RUN, intent: huge });
    const error = await refusal(refused);
    expect([error.code, wireCode(error)]).toEqual(["INVALID", "TOO_LARGE"]);
    expect(await client.request("list_procs", {})).toEqual({ processes: [] });
  });

  test("as an answer is TOO_LARGE too, and the error says how to request less", async () => {
    await using server = await serve("memory");
    const client = await server.client();
    for (const { pid } of [await server.detached(), await server.detached()])
      server.kernel.processes.info(pid).result = "x".repeat(40 * 1024 * 1024);
    expect(wireCode(await refusal(client.request("list_procs", {})))).toBe("TOO_LARGE");
    expect((await client.request("list_procs", { limit: 1 })).processes).toHaveLength(1);
  });
});

test("pipelined requests are answered in order, and a client that reads no answer is not read", async () => {
  const clock = new FakeClock();
  await using server = await serve("socket", { clock });
  const stream = await server.connect();
  const line = `${JSON.stringify({ method: "ping", payload: {}, id: "x".repeat(1000) })}\n`;
  stream.pause();
  let sent = 0;
  const more = (): boolean => {
    for (let i = 0; i < 100; i++) sent += line.length;
    return stream.write(line.repeat(100));
  };
  // Until both directions are full: the server has stopped reading because the client reads no answers.
  await until(() => !more() && stream instanceof Duplex && stream.writableLength > 10_000_000);
  expect(clock.pending).toBe(1);
  let lines = 0;
  stream.on("data", (chunk: Buffer) => {
    lines += chunk.toString("latin1").split("\n").length - 1;
  });
  stream.resume();
  await until(() => lines === sent / line.length);
});

test("at its end the server finishes streams that are ending, and cuts the others", async () => {
  await using server = await serve();
  const idle = await server.connect();
  const client = await server.client();
  const run = await client.open("spawn", RUN);
  await until(() => server.server.connections === 2);
  const ended = new Promise<void>((resolve) => idle.on("end", resolve));
  idle.resume();
  const closing = server.server.close();
  await server.kernel.finish(run.answer.pid, { code: 75, reason: "suspended" });
  const events: string[] = [];
  for await (const event of run) events.push(event.type);
  expect(events.at(-1)).toBe("complete");
  await closing;
  await ended;
  expect(server.server.connections).toBe(0);
});

test("a request that never ends does not delay the server's end", async () => {
  const clock = new FakeClock();
  await using server = await serve("memory", { clock });
  const { pid } = await server.detached();
  const stuck = Promise.withResolvers<ExitStatus>();
  let asked = false;
  server.kernel.lifecycle.suspend = () => {
    asked = true;
    return stuck.promise;
  };
  const waiting = (await server.client()).request("suspend", { pid });
  const cut = waiting.catch((error: unknown) => error);
  await until(() => asked);
  let closed = false;
  const closing = server.server.close().then(() => {
    closed = true;
  });
  await until(() => clock.pending > 0);
  for (let i = 0; i < 10 && !closed; i++) await clock.advance(1000);
  expect(closed).toBe(true);
  await closing;
  expect(await cut).toBeInstanceOf(Error);
  expect(server.logged.join()).toContain("did not end");
  expect(clock.pending).toBe(0);
  stuck.resolve({ code: 75, reason: "suspended" });
});
