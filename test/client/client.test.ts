import { describe, expect, test } from "bun:test";
import { createServer, type Socket } from "node:net";
import { join } from "node:path";
import { duplexPair } from "node:stream";
import { Client, fromWire, isServerError } from "../../src/client/client.ts";
import { overStream } from "../../src/client/session.ts";
import { dialSocket } from "../../src/client/socket.ts";
import { daemonEnv } from "../../src/client/start-daemon.ts";
import { realClock } from "../../src/lib/clock.ts";
import { SyscallError } from "../../src/plugin/index.ts";
import type { SpawnRequest } from "../../src/protocol/methods.ts";
import { TempDir } from "../server/support/fixture.ts";
import { refusal, wireCode } from "../server/support/refusal.ts";
import { FakeClock } from "../support/fake-clock.ts";
import { until } from "../support/until.ts";

const RUN: SpawnRequest = { intent: "x", cwd: "/w", env: {} };

/** A client and its server, whose answers the test scripts. */
function pair(o: { clock?: FakeClock; unit?: string } = {}) {
  const [ours, theirs] = duplexPair();
  theirs.on("close", () => ours.destroy());
  ours.on("close", () => theirs.destroy());
  const asked: unknown[] = [];
  theirs.on("data", (chunk: Buffer) => {
    for (const line of chunk.toString().trimEnd().split("\n")) asked.push(JSON.parse(line));
  });
  return {
    client: new Client(overStream(ours), o),
    asked,
    say: (line: object) => theirs.write(`${JSON.stringify(line)}\n`),
    raw: (text: string) => theirs.write(text),
    cut: () => theirs.destroy(),
  };
}

describe("a request", () => {
  test("has its id and the unit of its run, and gets the answer with its id", async () => {
    const { client, asked, say } = pair({ unit: "u-1" });
    const [first, second] = [client.request("list_procs", {}), client.request("wait", { pid: 1 })];
    await until(() => asked.length === 2);
    expect(asked).toEqual([
      { method: "list_procs", payload: {}, id: 1, unit: "u-1" },
      { method: "wait", payload: { pid: 1 }, id: 2, unit: "u-1" },
    ]);
    say({ ok: true, payload: { exit_code: 0 }, id: 2 });
    say({ ok: true, payload: { processes: [] }, id: 1 });
    expect(await first).toEqual({ processes: [] });
    expect((await second).exit_code).toBe(0);
    client.close();
  });

  test("is rejected with its error answer; one without an id rejects the oldest request", async () => {
    const { client, say } = pair();
    const asked = client.request("ping", {});
    say({ ok: false, error: { code: "TOO_LARGE", message: "too long" } });
    const error = await refusal(asked);
    expect([error.code, wireCode(error), error.message]).toEqual(["INVALID", "TOO_LARGE", "too long"]);
  });

  test("has a deadline, which closes the connection", async () => {
    const clock = new FakeClock();
    const { client } = pair({ clock });
    const refused = refusal(client.request("ping", {}, { timeoutMs: 500 }));
    await clock.advance(500);
    expect((await refused).code).toBe("TIMEOUT");
    expect((await refusal(client.request("ping", {}))).code).toBe("TIMEOUT");
    expect(clock.pending).toBe(0);
  });

  test("that starts a run has the deadline of a key command", async () => {
    for (const open of [
      (client: Client) => client.open("spawn", RUN),
      (client: Client) => client.open("resume", { uuid: "u", env: {} }),
    ]) {
      const clock = new FakeClock();
      const { client } = pair({ clock });
      let over = false;
      const refused = refusal(open(client)).finally(() => {
        over = true;
      });
      await clock.advance(200_000);
      expect(over).toBe(false);
      await clock.advance(40_000);
      expect((await refused).code).toBe("TIMEOUT");
    }
  });

  test("without a deadline fails when the connection closes", async () => {
    const { client, cut } = pair();
    const refused = refusal(client.request("wait", { pid: 1 }, { timeoutMs: null }));
    cut();
    expect((await refused).code).toBe("UNAVAILABLE");
  });

  test("fails when the answer is not of the protocol", async () => {
    for (const text of ["HTTP/1.1 400 Bad Request\r\n\r\n", "[]\n", "null\n", "{}\n", "\xff\n"]) {
      const { client, raw } = pair();
      const refused = refusal(client.request("ping", {}));
      raw(text);
      expect((await refused).code).toBe("INTERNAL");
    }
  });

  test("that a reset of the connection ends fails as unanswered", () => {
    const cause = Object.assign(new Error("connection reset by peer"), { code: "ECONNRESET" });
    const lost = new SyscallError("UNAVAILABLE", "lost", { cause });
    expect([isServerError(lost), wireCode(lost)]).toEqual([false, "UNAVAILABLE"]);
  });

  test("after close is CLOSED", async () => {
    const { client } = pair();
    client.close();
    expect((await refusal(client.request("ping", {}))).code).toBe("CLOSED");
  });
});

describe("a stream", () => {
  test("has its answer, then its events, and ends after complete", async () => {
    const { client, say } = pair();
    const opening = client.open("spawn", RUN);
    say({ ok: true, payload: { pid: 3, uuid: "u" }, id: 1 });
    const run = await opening;
    expect(run.answer).toEqual({ pid: 3, uuid: "u" });
    say({ type: "progress", payload: { event: "step", step: 1 } });
    say({ type: "complete", payload: { exit_code: 0 } });
    const types: string[] = [];
    for await (const event of run) types.push(event.type);
    expect(types).toEqual(["progress", "complete"]);
  });

  test("that is cut off throws after its received events", async () => {
    const { client, say, cut } = pair();
    const opening = client.open("spawn", RUN);
    say({ ok: true, payload: { pid: 3, uuid: "u" }, id: 1 });
    const run = await opening;
    say({ type: "text_delta", payload: { text: "a" } });
    const types: string[] = [];
    const reading = refusal(
      (async () => {
        for await (const event of run) {
          types.push(event.type);
          cut();
        }
      })(),
    );
    expect((await reading).code).toBe("UNAVAILABLE");
    expect(types).toEqual(["text_delta"]);
  });

  test("that is refused leaves the connection open for the next request", async () => {
    const { client, say } = pair();
    const refused = refusal(client.open("spawn", RUN));
    say({ ok: false, error: { code: "NOT_FOUND", message: "no such agent" }, id: 1 });
    expect((await refused).code).toBe("NOT_FOUND");
    const asked = client.request("list_procs", {});
    say({ ok: true, payload: { processes: [] }, id: 2 });
    expect(await asked).toEqual({ processes: [] });
  });

  test("that is left early closes the connection", async () => {
    const { client, say } = pair();
    const opening = client.open("attach_debug", { pid: 1 });
    say({ ok: true, payload: { pid: 1, uuid: "u" }, id: 1 });
    const run = await opening;
    say({ type: "syscall_event", payload: {} });
    for await (const _ of run) break;
    expect((await refusal(client.request("ping", {}))).code).toBe("CLOSED");
  });
});

describe("a socket", () => {
  test("sends the whole of a request that is larger than one write", async () => {
    using dir = new TempDir();
    let bytes = 0;
    const server = createServer((socket: Socket) => {
      socket.on("data", (chunk: Buffer) => {
        bytes += chunk.length;
        if (chunk.at(-1) === 10) socket.write(`{"ok":true,"payload":{"got":${bytes}},"id":1}\n`);
      });
    });
    const path = join(dir.path, "s");
    await new Promise<void>((resolve) => server.listen(path, resolve));
    const pipe = await dialSocket(path, realClock, 1000);
    if (!pipe) throw new Error("no server listens");
    const client = new Client(pipe);
    const payload = { ...RUN, intent: "x".repeat(10_000_000) };
    const { answer } = await client.open("spawn", payload);
    expect<unknown>(answer).toEqual({ got: JSON.stringify({ method: "spawn", payload, id: 1 }).length + 1 });
    client.close();
    server.close();
  });

  test("without a listener is null", async () => {
    using dir = new TempDir();
    expect(await dialSocket(join(dir.path, "none"), realClock, 1000)).toBeNull();
  });
});

test("an error of the protocol has its code, or the kernel's nearest", () => {
  const codes = ["NOT_FOUND", "BAD_REQUEST", "UNKNOWN_METHOD", "TOO_LARGE", "VERSION", "of a later version"];
  expect(codes.map((code) => fromWire({ code, message: "" }).code)).toEqual([
    "NOT_FOUND",
    "INVALID",
    "UNAVAILABLE",
    "INVALID",
    "UNAVAILABLE",
    "INTERNAL",
  ]);
  expect(codes.map((code) => wireCode(fromWire({ code, message: "" })))).toEqual(codes);
});

test("a daemon's environment is a list of allowed variables, not of forbidden ones", () => {
  const given = {
    PATH: "/bin",
    HOME: "/h",
    LC_ALL: "C",
    XDG_DATA_HOME: "/d",
    RNIX_SOCKET: "/s",
    RNIX_UNIT: "u",
    RNIX_CHILD: "c",
    RNIX_MODEL: "m",
    BUN_OPTIONS: "--preload x",
    BUN_JSC_useJIT: "0",
    OPENAI_API_KEY: "sk",
    AWS_SECRET_ACCESS_KEY: "s",
    EMPTY: undefined,
  };
  expect(daemonEnv(given)).toEqual({
    PATH: "/bin",
    HOME: "/h",
    LC_ALL: "C",
    XDG_DATA_HOME: "/d",
    RNIX_SOCKET: "/s",
    BUN_JSC_thresholdForJITAfterWarmUp: "10000",
    BUN_JSC_thresholdForJITSoon: "10000",
    BUN_JSC_useFTLJIT: "0",
    BUN_CONFIG_MAX_HTTP_REQUESTS: "5120",
  });
});
