import { afterAll, describe, expect, test } from "bun:test";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { runCommandLine } from "../../src/cli/cli.ts";
import type { Input } from "../../src/cli/io.ts";
import {
  FIRST_BYTES_MS,
  INTENT_MS,
  readAttached,
  readIntent,
  SILENCE_MS,
  STDIN_LIMIT,
} from "../../src/cli/stdin.ts";
import { complete, FakeIo, REF } from "./support.ts";

const dir = mkdtempSync(join(tmpdir(), "rnix-stdin-"));
afterAll(() => rmSync(dir, { recursive: true, force: true }));

const PROGRAM = join(import.meta.dir, "programs/stdin.ts");

type Stdin = "ignore" | "pipe" | Blob;

/** Runs the reader on a real stdin; `feed` writes to its pipe and may leave it open. */
async function read(
  stdin: Stdin,
  o: { mode?: "intent"; feed?: (pipe: Bun.FileSink) => void } = {},
): Promise<{ kind: string; value?: unknown; error?: string }> {
  const child = Bun.spawn([process.execPath, PROGRAM, o.mode ?? "attached"], { stdin, stderr: "inherit" });
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
  test("a pipe that is left open and silent gives nothing, and the command ends while it is open", async () => {
    expect(await read("pipe")).toEqual({ kind: "pipe", value: null });
  });

  test("a pipe that is closed at once gives nothing", async () => {
    expect(await read("pipe", { feed: (pipe) => void pipe.end() })).toEqual({ kind: "pipe", value: null });
  });

  test("a pipe with text is attached to its end", async () => {
    const feed = (pipe: Bun.FileSink) => {
      pipe.write("one\n");
      pipe.write("two\n");
      void pipe.end();
    };
    expect(await read("pipe", { feed })).toEqual({
      kind: "pipe",
      value: { text: "one\ntwo\n", truncated: false },
    });
  });

  test("a pipe that sends something and then neither more nor its end is attached after its silence", async () => {
    const feed = (pipe: Bun.FileSink) => {
      pipe.write("half");
      void pipe.flush();
    };
    expect(await read("pipe", { feed })).toEqual({ kind: "pipe", value: { text: "half", truncated: false } });
  });

  test("a file is attached", async () => {
    const file = join(dir, "notes.txt");
    await Bun.write(file, "from a file");
    expect(await read(Bun.file(file))).toEqual({
      kind: "file",
      value: { text: "from a file", truncated: false },
    });
  });

  test("an empty file and /dev/null give nothing", async () => {
    const file = join(dir, "empty.txt");
    await Bun.write(file, "");
    expect((await read(Bun.file(file))).value).toBeNull();
    expect(await read("ignore")).toEqual({ kind: "none", value: null });
  });

  test("more than the limit is cut at a whole character, and said so", async () => {
    const file = join(dir, "big.txt");
    await Bun.write(file, `x${"ü".repeat(STDIN_LIMIT)}`);
    const { value } = await read(Bun.file(file));
    expect(value).toEqual({ text: `x${"ü".repeat(STDIN_LIMIT / 2 - 1)}`, truncated: true });
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
  test("are 200 ms for the first bytes of a pipe, then 2 s of silence", async () => {
    const silent = new FakeIo({ stdin: input("pipe", [], "open") });
    const nothing = readAttached(silent);
    expect(silent.timers.map(({ ms }) => ms)).toEqual([FIRST_BYTES_MS]);
    silent.timers[0]?.fire();
    expect(await nothing).toBeNull();
    expect(FIRST_BYTES_MS).toBe(200);

    const begun = new FakeIo({ stdin: input("pipe", ["a"], "open") });
    const something = readAttached(begun);
    while (begun.timers[0]?.ms !== SILENCE_MS) await Promise.resolve();
    begun.timers[0].fire();
    expect(await something).toEqual({ text: "a", truncated: false });
    expect(SILENCE_MS).toBe(2000);
  });

  test("for an intent are long, and not for ever", async () => {
    const io = new FakeIo({ stdin: input("pipe", [], "open") });
    const intent = readIntent(io);
    expect(io.timers.map(({ ms }) => ms)).toEqual([INTENT_MS]);
    io.timers[0]?.fire();
    await expect(intent).rejects.toThrow("empty");
  });

  test("leave no timer behind", async () => {
    const io = new FakeIo({ stdin: input("pipe", ["a", "b"]) });
    await readAttached(io);
    expect(io.timers).toEqual([]);
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

  test("asks for the connection before it has waited for the pipe", async () => {
    const io = new FakeIo({
      stdin: input("pipe", [], "open"),
      answers: { spawn: REF },
      events: [complete()],
    });
    const waiting = io.whenTimer();
    const code = runCommandLine(["spawn", "x"], io);
    await waiting;
    expect(io.sessions).toHaveLength(1);
    io.timers[0]?.fire();
    expect(await code).toBe(0);
    expect(io.payloads("spawn")[0]?.input).toBeUndefined();
  });

  test("without an intent at a terminal is refused before anything is started", async () => {
    const { code, err, io } = await spawn([], input("tty", []));
    expect(code).toBe(64);
    expect(err).toContain("INTENT is missing");
    expect(io.sessions).toEqual([]);
  });

  test("never reads a terminal that it was not asked to read", async () => {
    const stdin: Input = { kind: "tty", read: () => Promise.reject(new Error("it was read")) };
    expect((await spawn(["x"], stdin)).request?.input).toBeUndefined();
  });

  test("refuses bytes that are no text, and closes what it has opened", async () => {
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
