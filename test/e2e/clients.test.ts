import { describe, expect, test } from "bun:test";
import { z } from "zod";
import { binary } from "./support/binary.ts";
import { Machine } from "./support/machine.ts";
import { Running } from "./support/running.ts";
import { bash, says } from "./support/scenes.ts";
import { Receipt, receiptOf } from "./support/verdict.ts";
import { RawClient } from "./support/wire.ts";

const HOLD = bash("touch held; until test -e go; do sleep 0.02; done");
const MIB = 1024 * 1024;

describe("a client that dies", () => {
  for (const signal of ["SIGKILL", "SIGHUP"] as const) {
    test(`of ${signal} in the middle of its stream does not end its run`, async () => {
      await using machine = await Machine.playing({ "go on": [HOLD, { text: "gone on and on", chunks: 5 }] });
      const command = machine.start(["spawn", "go on", "--output", "jsonl"]);
      await machine.held();
      command.signal(signal);
      expect((await command.done).code).not.toBe(0);
      const waiting = machine.start(["wait", "1", "--json"]);
      machine.write("go", "");
      const receipt = receiptOf(await waiting.done);
      expect(receipt).toMatchObject({ exit_code: 0, result: "gone on and on" });
    });
  }

  test("does not lift the limits of its run", async () => {
    await using machine = await Machine.playing({ "go on": [HOLD] });
    const command = machine.start(["spawn", "go on", "--timeout", "1s"]);
    await command.stderr.has(/process 1 /);
    command.signal("SIGKILL");
    await command.done;
    const waited = await machine.run(["wait", "1", "--json"]);
    expect(JSON.parse(waited.stdout)).toMatchObject({ exit_code: 1, exit_reason: "timeout" });
    expect(machine.strays()).toEqual([]);
  });

  test("before it reads the answer to its spawn leaves a complete run", async () => {
    await using machine = await Machine.playing({ "say so": [says("so")] });
    await machine.run(["daemon", "start"]);
    const client = await RawClient.connect(machine.socket);
    const payload = { intent: "say so", cwd: machine.project, env: machine.env };
    await client.send(`${JSON.stringify({ method: "spawn", payload })}\n`);
    client.destroy();
    await machine.until(["ps", "-a"], /1 +done .* completed/);
    expect((await machine.run(["wait", "1"])).stdout).toBe("so\n");
  });
});

describe("a client that does not read", () => {
  /** Far more than a socket or a pipe holds. */
  const LONG = "word ".repeat(400_000);

  test("does not slow the run, and gets its end and every word, several coalesced into one event", async () => {
    await using machine = await Machine.playing({ talk: [{ text: LONG, chunks: 4000 }] });
    await machine.run(["daemon", "start"]);
    const client = await RawClient.connect(machine.socket);
    const payload = { intent: "talk", cwd: machine.project, env: machine.env };
    await client.send(`${JSON.stringify({ method: "spawn", payload })}\n`);
    const receipt = await machine.until(["wait", "1", "--json"], /"exit_code":0/);
    expect(Receipt.parse(JSON.parse(receipt)).result).toBe(LONG);

    let words = "";
    let line = await client.line();
    for (; line.type !== "complete"; line = await client.line()) {
      if (line.type === "text_delta") words += z.object({ text: z.string() }).parse(line.payload).text;
    }
    expect(words).toBe(LONG);
    expect(line.dropped).toBeUndefined();
    expect(line.payload).toMatchObject({ exit_code: 0, result: LONG });
    await expect(client.line()).rejects.toThrow("closed the connection");
    client.destroy();
  });

  test("at the end of the command's pipe does not slow the run", async () => {
    await using machine = await Machine.playing({ talk: [{ text: LONG, chunks: 4000 }] });
    const line = `"$0" spawn talk --output jsonl | { until test -e read; do sleep 0.02; done; tail -n 1; }`;
    const command = piped(machine, line);
    await machine.until(["ps", "-a"], /1 +done .* completed/);
    machine.write("read", "");
    const { stdout } = await command.done;
    expect(JSON.parse(stdout)).toMatchObject({ type: "complete", payload: { exit_code: 0, result: LONG } });
  });

  test("and closes its pipe (| head) ends no run", async () => {
    await using machine = await Machine.playing({ talk: [HOLD, { text: LONG, chunks: 4000 }] });
    const command = piped(machine, `"$0" spawn talk --output jsonl | head -n 1`);
    await machine.held();
    expect(JSON.parse((await head(command)).trimEnd())).toMatchObject({ payload: { event: "spawn" } });
    machine.write("go", "");
    const waited = await machine.run(["wait", "1", "--json"]);
    expect(JSON.parse(waited.stdout)).toMatchObject({ exit_code: 0, result: LONG });
    await command.done;
    const log = piped(machine, `"$0" log 1 -f | head -n 1`);
    expect((await log.done).code).toBe(0);
  });
});

describe("on the real socket", () => {
  const spawn = (more: object): object => ({ intent: "x", cwd: "/", env: {}, ...more });
  const BAD: [line: string | Uint8Array, code: string][] = [
    ["not json", "BAD_REQUEST"],
    ["null", "BAD_REQUEST"],
    ["[]", "BAD_REQUEST"],
    ["{}", "BAD_REQUEST"],
    ['"ping"', "BAD_REQUEST"],
    ['{"method":5}', "BAD_REQUEST"],
    ['{"method":"ping","id":{}}', "BAD_REQUEST"],
    ['{"method":"ping"}}', "BAD_REQUEST"],
    ["GET / HTTP/1.1\r", "BAD_REQUEST"],
    ["[".repeat(200_000), "BAD_REQUEST"],
    [`{"method":"kill","payload":${'{"pid":'.repeat(50_000)}1${"}".repeat(50_000)}}`, "BAD_REQUEST"],
    [Buffer.from([0xff, 0xfe, 0x00, 0x80]), "BAD_REQUEST"],
    [Buffer.from([0x16, 0x03, 0x01, 0x02, 0x00, 0x01]), "BAD_REQUEST"],
    ['{"method":"nope"}', "UNKNOWN_METHOD"],
    ['{"method":""}', "UNKNOWN_METHOD"],
    ['{"method":"__proto__"}', "UNKNOWN_METHOD"],
    ['{"method":"constructor"}', "UNKNOWN_METHOD"],
    ['{"method":"ping","payload":3}', "INVALID"],
    ['{"method":"kill","payload":{}}', "INVALID"],
    ['{"method":"kill","payload":{"pid":-1}}', "INVALID"],
    ['{"method":"kill","payload":{"pid":1.5}}', "INVALID"],
    ['{"method":"kill","payload":{"pid":1,"signal":9}}', "INVALID"],
    ['{"method":"show","payload":{"pid":1e308}}', "INVALID"],
    ['{"method":"show","payload":{"uuid":"../../../etc/passwd"}}', "NOT_FOUND"],
    ['{"method":"show","payload":{"uuid":"0"}}', "NOT_FOUND"],
    ['{"method":"wait","payload":{"pid":99}}', "NOT_FOUND"],
    ['{"method":"attach_log","payload":{"pid":99}}', "NOT_FOUND"],
    ['{"method":"get_step_detail","payload":{"pid":99,"step":0}}', "INVALID"],
    ['{"method":"list_procs","payload":{"limit":-1}}', "INVALID"],
    ['{"method":"shutdown","unit":"x"}', "PERMISSION"],
    [JSON.stringify({ method: "spawn", payload: {} }), "INVALID"],
    [JSON.stringify({ method: "spawn", payload: spawn({ intent: "" }) }), "INVALID"],
    [JSON.stringify({ method: "spawn", payload: spawn({ max_steps: -1 }) }), "INVALID"],
    [JSON.stringify({ method: "spawn", payload: spawn({ timeout_ms: 1.5 }) }), "INVALID"],
    [JSON.stringify({ method: "spawn", payload: spawn({ cwd: "relative" }) }), "INVALID"],
    [JSON.stringify({ method: "spawn", payload: spawn({ cwd: "/does/not/exist" }) }), "NOT_FOUND"],
    [JSON.stringify({ method: "spawn", payload: spawn({ env: { A: 1 } }) }), "INVALID"],
    [JSON.stringify({ method: "spawn", payload: spawn({ parent_uuid: "none" }) }), "NOT_FOUND"],
  ];

  test("every bad line is answered with its error, and the connection stays open", async () => {
    await using machine = new Machine();
    await machine.run(["daemon", "start"]);
    const client = await RawClient.connect(machine.socket);
    const codes: [string, string | undefined][] = [];
    for (const [line] of BAD) {
      await client.send(Buffer.concat([Buffer.from(line), Buffer.from("\n")]));
      codes.push([shown(line), (await client.line()).error?.code]);
      expect(await client.ask("ping")).toMatchObject({ ok: true, payload: { pid: machine.daemonPid } });
    }
    expect(codes).toEqual(BAD.map(([line, code]) => [shown(line), code]));
    client.destroy();
  });

  test("partial, joined, unterminated and empty lines are parsed", async () => {
    await using machine = new Machine();
    await machine.run(["daemon", "start"]);
    const client = await RawClient.connect(machine.socket);
    await client.send('\n\r\n{"method":"pi');
    await client.send('ng","id":1}\r\n{"method":"ping","id":2}\n{"method":"ping","id":3}');
    client.end();
    for (const id of [1, 2, 3]) expect(await client.line()).toMatchObject({ ok: true, id });
    await client.closed;

    const half = await RawClient.connect(machine.socket);
    await half.send('{"method":"shutd');
    half.end();
    expect(await half.line()).toMatchObject({ error: { code: "BAD_REQUEST" } });
    await half.closed;
    const gone = await RawClient.connect(machine.socket);
    await gone.send('{"method":"shutdown"');
    gone.destroy();
    await machine.ok(["daemon", "status"]);
  });

  test("a line of 200 MB and endless garbage cost no memory and do not slow other clients", async () => {
    await using machine = new Machine();
    await machine.run(["daemon", "start"]);
    const before = await rss(machine);
    const huge = await RawClient.connect(machine.socket);
    const piece = new Uint8Array(4 * MIB).fill(120);
    for (let sent = 0; sent < 50; sent++) await huge.send(piece);
    expect(await huge.line()).toMatchObject({ error: { code: "TOO_LARGE" } });
    await huge.send("\n");
    expect(await huge.ask("ping")).toMatchObject({ ok: true });

    const garbage = await RawClient.connect(machine.socket);
    // Not waited for: a client that takes no answers is not read any further.
    void garbage.send(noise(8 * MIB));
    expect(await garbage.line()).toMatchObject({ error: { code: "BAD_REQUEST" } });
    expect((await rss(machine)) - before).toBeLessThan(120 * MIB);
    garbage.destroy();
    huge.destroy();
    expect((await machine.run(["daemon", "logs"])).stdout).not.toContain("fault");
  });

  test("200 clients are served at once, also when some of them misbehave", async () => {
    await using machine = await Machine.playing({ "say so": [says("so")] });
    await machine.run(["daemon", "start"]);
    const clients = await Promise.all(Array.from({ length: 200 }, () => RawClient.connect(machine.socket)));
    await Promise.all(
      clients.map(async (client, index) => {
        if (index % 4 === 0) return client.send(`{"method":"ping","payload":"${"x".repeat(50_000)}`);
        if (index % 4 === 1) return client.send("garbage\n".repeat(100));
        expect(await client.ask("ping")).toMatchObject({ ok: true });
        if (index % 4 === 2) client.destroy();
      }),
    );
    expect((await machine.run(["spawn", "say so", "-q"])).stdout).toBe("so\n");
    for (const client of clients) client.destroy();
    await Promise.all(clients.map(({ closed }) => closed));
    await machine.until(["daemon", "status", "--json"], /"connections":1,/);
  });
});

function shown(line: string | Uint8Array): string {
  return Buffer.from(line).toString("latin1").slice(0, 60);
}

/** `$0` is rnix. */
function piped(machine: Machine, line: string): Running {
  return new Running({ argv: ["sh", "-c", line, binary()], cwd: machine.project, env: machine.env });
}

async function head(command: Running): Promise<string> {
  return command.stdout.has(/^.*\n/);
}

/** The same bytes each time, newlines among them. */
function noise(length: number): Uint8Array {
  const bytes = new Uint8Array(length);
  let state = 1;
  for (let at = 0; at < length; at++) {
    state = (Math.imul(state, 1103515245) + 12345) >>> 0;
    bytes[at] = state >>> 16;
  }
  return bytes;
}

async function rss(machine: Machine): Promise<number> {
  const status = await machine.run(["daemon", "status", "--json"]);
  return z.object({ rss_bytes: z.number() }).parse(JSON.parse(status.stdout)).rss_bytes;
}
