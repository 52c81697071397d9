import { afterAll, describe, expect, test } from "bun:test";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { runCommandLine } from "../../src/cli/cli.ts";
import type { Input } from "../../src/cli/io.ts";
import {
  INTENT_MS,
  NAMED_AFTER_MS,
  readAttached,
  readIntent,
  STDIN_LIMIT,
  type StdinOptions,
} from "../../src/cli/run/stdin.ts";
import { complete, FakeIo, REF } from "./support.ts";

const dir = mkdtempSync(join(tmpdir(), "rnix-stdin-"));
afterAll(() => rmSync(dir, { recursive: true, force: true }));

/** Where the user's settings are read: stdin is waited for no longer than a test may take. */
const ENV = { HOME: dir, XDG_CONFIG_HOME: join(dir, "config"), XDG_DATA_HOME: join(dir, "data") };
mkdirSync(join(dir, "config/rnix"), { recursive: true });
writeFileSync(join(dir, "config/rnix/config.yaml"), "stdin_wait: 1s\ntimeout: 20m\n");

const OPTIONS: StdinOptions = { stdin: false, "no-stdin": false, timeout: undefined, quiet: false };

const PROGRAM = join(import.meta.dir, "programs/stdin.ts");

type Stdin = "ignore" | "pipe" | Blob;

const NOTHING = { text: undefined, notices: [] };

/** Runs the reader on a real stdin; `feed` writes to its pipe and may leave it open. */
async function read(
  stdin: Stdin,
  o: { mode?: "intent"; flags?: object; feed?: (pipe: Bun.FileSink) => void } = {},
): Promise<{ kind: string; value?: unknown; error?: string }> {
  const child = Bun.spawn([process.execPath, PROGRAM, o.mode ?? "attached", JSON.stringify(o.flags ?? {})], {
    stdin,
    stderr: "inherit",
    cwd: dir,
    env: { ...process.env, ...ENV },
  });
  try {
    if (typeof child.stdin === "object" && child.stdin !== null) o.feed?.(child.stdin);
    return JSON.parse(await new Response(child.stdout).text());
  } finally {
    child.kill();
    await child.exited;
  }
}

/** An input that gives these chunks, then is silent ("open") or ends. */
function input(kind: Input["kind"], chunks: (string | Uint8Array)[], end: "open" | "end" = "end"): Input {
  const left = chunks.map((chunk) => (typeof chunk === "string" ? new TextEncoder().encode(chunk) : chunk));
  return {
    kind,
    read() {
      const next = left.shift();
      if (next !== undefined) return Promise.resolve(next);
      return end === "end" ? Promise.resolve(null) : new Promise(() => undefined);
    },
  };
}

describe("a real stdin beside an intent", () => {
  test("an open and silent pipe is not read further, with a notice", async () => {
    const left = { text: undefined, notices: [expect.stringContaining("sent nothing for 1s")] };
    expect(await read("pipe")).toEqual({ kind: "pipe", value: left });
  });

  test("--no-stdin does not read a pipe with data", async () => {
    const feed = (pipe: Bun.FileSink) => {
      pipe.write("unread");
      void pipe.end();
    };
    expect((await read("pipe", { flags: { "no-stdin": true }, feed })).value).toEqual(NOTHING);
  });

  test("a pipe that is closed at once attaches nothing", async () => {
    expect(await read("pipe", { feed: (pipe) => void pipe.end() })).toEqual({ kind: "pipe", value: NOTHING });
  });

  test("a pipe with text is attached to its end, with pauses longer than the wait for its first byte", async () => {
    const feed = async (pipe: Bun.FileSink) => {
      pipe.write("one\n");
      await pipe.flush();
      await Bun.sleep(1500);
      pipe.write("two\n");
      await pipe.end();
    };
    expect(await read("pipe", { feed: (pipe) => void feed(pipe) })).toEqual({
      kind: "pipe",
      value: { text: "one\ntwo\n", notices: [] },
    });
  });

  test("a file is attached", async () => {
    const file = join(dir, "notes.txt");
    await Bun.write(file, "from a file");
    expect(await read(Bun.file(file))).toEqual({
      kind: "file",
      value: { text: "from a file", notices: [] },
    });
  });

  test("an empty file and /dev/null attach nothing", async () => {
    const file = join(dir, "empty.txt");
    await Bun.write(file, "");
    expect((await read(Bun.file(file))).value).toEqual(NOTHING);
    expect(await read("ignore")).toEqual({ kind: "none", value: NOTHING });
  });

  test("text above the limit is truncated at a whole character, with a notice", async () => {
    const file = join(dir, "big.txt");
    await Bun.write(file, `x${"ü".repeat(STDIN_LIMIT)}`);
    const { value } = await read(Bun.file(file));
    const notices = [expect.stringContaining(String(STDIN_LIMIT))];
    expect(value).toEqual({ text: `x${"ü".repeat(STDIN_LIMIT / 2 - 1)}`, notices });
  });
});

describe("a real stdin as the intent", () => {
  test("is read to its end", async () => {
    const feed = (pipe: Bun.FileSink) => {
      pipe.write("do this\n");
      void pipe.end();
    };
    expect(await read("pipe", { mode: "intent", feed })).toEqual({ kind: "pipe", value: "do this" });
  });

  test("that is empty is refused", async () => {
    const feed = (pipe: Bun.FileSink) => void pipe.end();
    expect((await read("pipe", { mode: "intent", feed })).error).toContain("empty");
    expect((await read("ignore", { mode: "intent" })).error).toContain("INTENT is missing");
  });
});

describe("the waits", () => {
  function silent(kind: Input["kind"] = "pipe", chunks: string[] = []): FakeIo {
    return new FakeIo({ env: ENV, cwd: dir, stdin: input(kind, chunks, "open") });
  }

  /** Fires the first timer, and returns the others as soon as there are `count` of them. */
  async function timersAfterNaming(io: FakeIo, count: number): Promise<{ ms: number; fire: () => void }[]> {
    expect(io.timers.map(({ ms }) => ms)).toEqual([NAMED_AFTER_MS]);
    io.timers[0]?.fire();
    while (io.timers.length <= count) await io.whenTimer();
    return io.timers.slice(1);
  }

  test("a silent pipe is named after 1 s and skipped after stdin_wait", async () => {
    const io = silent();
    const nothing = readAttached(io, OPTIONS);
    const [end, leave] = await timersAfterNaming(io, 2);
    expect(io.stderr.text).toContain("reading stdin …; --no-stdin");
    expect([end?.ms, leave?.ms]).toEqual([20 * 60_000 - 1000, 0]);
    leave?.fire();
    expect(await nothing).toEqual({ text: undefined, notices: [expect.stringContaining("1s")] });
    expect(io.timers).toEqual([]);
  });

  test("a pipe that has begun is read until the run's time is over: the command fails, and starts nothing", async () => {
    const io = silent("pipe", ["half"]);
    const reading = readAttached(io, { ...OPTIONS, timeout: 60_000 });
    const [end] = await timersAfterNaming(io, 1);
    expect(io.timers.map(({ ms }) => ms)).toEqual([NAMED_AFTER_MS, 59_000]);
    end?.fire();
    await expect(reading).rejects.toMatchObject({ code: "TIMEOUT" });
  });

  test("--stdin and - wait without stdin_wait, a missing intent waits 5 minutes", async () => {
    const attached = silent();
    readAttached(attached, { ...OPTIONS, stdin: true }).catch(() => undefined);
    expect((await timersAfterNaming(attached, 1)).map(({ ms }) => ms)).toEqual([20 * 60_000 - 1000]);
    const asked = silent();
    readIntent(asked, { ...OPTIONS, asked: true, what: "intent" }).catch(() => undefined);
    expect((await timersAfterNaming(asked, 1)).map(({ ms }) => ms)).toEqual([20 * 60_000 - 1000]);
    const unasked = silent();
    const intent = readIntent(unasked, { ...OPTIONS, asked: false, what: "intent" });
    const [, leave] = await timersAfterNaming(unasked, 2);
    expect(leave?.ms).toBe(INTENT_MS - 1000);
    leave?.fire();
    await expect(intent).rejects.toMatchObject({ code: "TIMEOUT" });
  });

  test("a signal ends the reading", async () => {
    const io = silent("pipe", ["half"]);
    const reading = readAttached(io, { ...OPTIONS, stdin: true });
    io.signal("SIGINT");
    await expect(reading).rejects.toMatchObject({ code: "CANCELLED" });
    expect([io.timers, io.listening]).toEqual([[], 0]);
  });

  test("-q prints no progress of the wait", async () => {
    const io = silent();
    readAttached(io, { ...OPTIONS, quiet: true }).catch(() => undefined);
    await timersAfterNaming(io, 2);
    expect(io.stderr.text).toBe("");
  });

  test("leave no timer and no signal handler", async () => {
    const io = new FakeIo({ stdin: input("pipe", ["a", "b"]) });
    await readAttached(io, OPTIONS);
    expect([io.timers, io.listening]).toEqual([[], 0]);
  });
});

describe("rnix spawn", () => {
  async function spawn(args: string[], stdin: Input) {
    const io = new FakeIo({ stdin, answers: { spawn: REF }, events: [complete()] });
    const code = await runCommandLine(["spawn", ...args], io);
    return { code, request: io.payloads("spawn")[0], err: io.stderr.text, io };
  }

  test.each([[[]], [["-"]]])("with %p takes the intent from a pipe", async (args) => {
    const { code, request } = await spawn(args, input("pipe", ["fix it\n"]));
    expect(code).toBe(0);
    expect(request).toMatchObject({ intent: "fix it", input: undefined });
  });

  test("with an intent and a pipe attaches the pipe's text", async () => {
    const { request } = await spawn(["review"], input("pipe", ["diff"]));
    expect(request).toMatchObject({ intent: "review", input: "diff" });
  });

  test("connects before it waits for the pipe, and sends the notice of a skipped pipe", async () => {
    const io = new FakeIo({
      env: ENV,
      cwd: dir,
      stdin: input("pipe", [], "open"),
      answers: { spawn: REF },
      events: [complete()],
    });
    const code = runCommandLine(["spawn", "x"], io);
    await io.whenTimer();
    expect(io.sessions).toHaveLength(1);
    io.timers[0]?.fire();
    while (io.timers.length < 3) await io.whenTimer();
    io.timers[2]?.fire();
    expect(await code).toBe(0);
    expect(io.payloads("spawn")[0]?.input).toBeUndefined();
    expect(io.payloads("spawn")[0]?.notices).toEqual([expect.stringContaining("stdin sent nothing")]);
    expect(io.stderr.text).toContain("note: stdin sent nothing for 1s");
  });

  test.each([[["x", "--stdin", "--no-stdin"]], [["-", "--no-stdin"]], [["--no-stdin"]]])(
    "refuses %p before anything is started",
    async (args) => {
      const { code, err, io } = await spawn(args, input("pipe", ["text"]));
      expect(code).toBe(64);
      expect(err).toMatch(/stdin|INTENT is missing/);
      expect(io.sessions).toEqual([]);
    },
  );

  test("without an intent at a terminal is refused before anything is started", async () => {
    const { code, err, io } = await spawn([], input("tty", []));
    expect(code).toBe(64);
    expect(err).toContain("INTENT is missing");
    expect(io.sessions).toEqual([]);
  });

  test("never reads a terminal without --stdin", async () => {
    const stdin: Input = { kind: "tty", read: () => Promise.reject(new Error("it was read")) };
    expect((await spawn(["x"], stdin)).request?.input).toBeUndefined();
  });

  test("refuses bytes that are not text, and closes its connection", async () => {
    const { code, err, io } = await spawn(["x"], input("file", [new Uint8Array([0xff, 0xfe, 0x00])]));
    expect(code).toBe(64);
    expect(err).toContain("not UTF-8");
    expect(io.openSessions).toBe(0);
    expect(io.payloads("spawn")).toEqual([]);
  });

  test.each(["", "  \n"])("refuses the empty intent %j", async (intent) => {
    expect((await spawn([intent], input("none", []))).code).toBe(64);
    expect((await spawn(["-"], input("pipe", [intent]))).code).toBe(64);
  });
});
