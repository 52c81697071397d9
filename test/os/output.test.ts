import { describe, expect, test } from "bun:test";
import { existsSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { Output, type OutputLimits } from "../../src/os/output.ts";
import type { SyscallError } from "../../src/plugin/index.ts";
import { until } from "../support/until.ts";
import { Bench, errorOf, output, stateOf } from "./support.ts";

const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);

function make(
  bench: Bench,
  limits: Partial<OutputLimits> = {},
): { out: Output; path: string; faults: SyscallError[] } {
  const path = join(bench.spillDir, "output.log");
  const faults: SyscallError[] = [];
  const all = { memoryBytes: 10, diskBytes: 100, readerMs: 60_000, ...limits };
  return { out: new Output(path, all, (error) => faults.push(error)), path, faults };
}

/** Reads to the end, the streams marked: "1:text 2:text". */
async function readAll(out: Output): Promise<string> {
  const parts: { fd: number; text: string }[] = [];
  for (let piece = await out.read(); piece; piece = await out.read()) {
    const text = new TextDecoder().decode(piece.data);
    const last = parts.at(-1);
    if (last?.fd === piece.fd) last.text += text;
    else parts.push({ fd: piece.fd, text });
  }
  return parts.map(({ fd, text }) => `${fd}:${text}`).join(" ");
}

async function isPending(promise: Promise<unknown>): Promise<boolean> {
  for (let turn = 0; turn < 20; turn++) {
    if ((await Promise.race([promise.then(() => "done"), turnOfTheLoop()])) === "done") return false;
  }
  return true;
}

function turnOfTheLoop(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

describe("recorded output", () => {
  test("as much as memory holds makes no file", async () => {
    await using bench = new Bench();
    const { out, path } = make(bench);
    await out.push(1, bytes("12345"));
    await out.push(2, bytes("67890"));
    await out.finish();
    expect(out.summary()).toEqual({ outputBytes: 10, droppedBytes: 0 });
    expect(existsSync(path)).toBe(false);
    expect(await readAll(out)).toBe("1:12345 2:67890");
  });

  test("one byte above the limit, and all of it is in the file, private to its owner", async () => {
    await using bench = new Bench();
    const { out, path } = make(bench);
    for (const [fd, text] of [
      [1, "12345"],
      [2, "67890"],
      [1, "x"],
    ] as const)
      await out.push(fd, bytes(text));
    await out.finish();
    expect(out.summary()).toEqual({ outputFile: path, outputBytes: 11, droppedBytes: 0 });
    expect(readFileSync(path, "utf8")).toBe("1234567890x");
    expect(statSync(path).mode & 0o777).toBe(0o600);
    expect(statSync(dirname(path)).mode & 0o777).toBe(0o700);
  });

  for (const [what, diskBytes, kept] of [
    ["in the middle of a piece", 13, "abcdefghijklm"],
    ["between two", 16, "abcdefghijklmnop"],
    ["below what memory holds", 3, "abc"],
  ] as const) {
    test(`beyond a cap ${what} the rest is counted and dropped`, async () => {
      await using bench = new Bench();
      const { out, path } = make(bench, { diskBytes });
      out.readerNotExpected();
      for (const text of ["abcdefgh", "ijklmnop", "qrstuvwx"]) await out.push(1, bytes(text));
      await out.finish();
      expect(readFileSync(path, "utf8")).toBe(kept);
      expect(out.summary()).toEqual({ outputFile: path, outputBytes: 24, droppedBytes: 24 - kept.length });
    });
  }

  test("a cap of nothing makes no file", async () => {
    await using bench = new Bench();
    const { out, path } = make(bench, { diskBytes: 0 });
    out.readerNotExpected();
    await out.push(1, bytes("x".repeat(30)));
    await out.finish();
    expect(out.summary()).toEqual({ outputBytes: 30, droppedBytes: 30 });
    expect(existsSync(path)).toBe(false);
  });

  test("a file that is in the way is not written over: reported, counted as dropped", async () => {
    await using bench = new Bench();
    const { out, path, faults } = make(bench);
    writeFileSync(bench.spillDir, "in the way of the folder");
    out.readerNotExpected();
    await out.push(1, bytes("x".repeat(30)));
    await out.push(1, bytes("more"));
    await out.finish();
    expect(out.summary()).toEqual({ outputBytes: 34, droppedBytes: 34 });
    expect(faults.map((fault) => fault.message)).toEqual([expect.stringContaining(path)]);
  });
});

describe("a reader", () => {
  test("that comes late gets everything from the file and then from memory, stream by stream", async () => {
    await using bench = new Bench();
    const { out } = make(bench);
    for (let n = 0; n < 12; n++) await out.push(n % 3 === 0 ? 2 : 1, bytes(`<${n}>`));
    await out.finish();
    expect(await readAll(out)).toBe("2:<0> 1:<1><2> 2:<3> 1:<4><5> 2:<6> 1:<7><8> 2:<9> 1:<10><11>");
    expect(await out.read()).toBeNull();
  });

  test("that is now ahead and now behind misses nothing and sees nothing twice", async () => {
    await using bench = new Bench();
    const { out } = make(bench, { diskBytes: 10_000 });
    let seen = "";
    let sent = "";
    for (let n = 0; n < 200; n++) {
      const text = `${n},`;
      sent += text;
      await out.push(n % 2 === 0 ? 1 : 2, bytes(text));
      for (let reads = n % 40 < 20 ? 0 : 3; reads > 0 && seen.length < sent.length; reads--) {
        seen += new TextDecoder().decode((await out.read())?.data);
      }
    }
    await out.finish();
    seen += (await readAll(out)).replaceAll(/ ?[12]:/g, "");
    expect(seen).toBe(sent);
  });

  test("that waits is answered by the next piece, and by the end", async () => {
    await using bench = new Bench();
    const { out } = make(bench);
    const first = out.read();
    expect(await isPending(first)).toBe(true);
    await out.push(2, bytes("now"));
    expect(await first).toEqual({ fd: 2, data: bytes("now") });
    const last = out.read();
    await out.finish();
    expect(await last).toBeNull();
  });

  test("is waited for only where bytes would be lost: beyond memory and the cap", async () => {
    await using bench = new Bench();
    const { out } = make(bench, { diskBytes: 20 });
    for (const text of ["aaaaaaaaaa", "bbbbbbbbbb", "cccccccccc"]) await out.push(1, bytes(text));
    const fourth = out.push(1, bytes("dddddddddd"));
    expect(await isPending(fourth)).toBe(true);
    let seen = "";
    while (seen.length < 30) seen += new TextDecoder().decode((await out.read())?.data);
    await fourth;
    await out.finish();
    expect(seen + (await readAll(out)).slice(2)).toBe("aaaaaaaaaabbbbbbbbbbccccccccccdddddddddd");
  });

  test("that never comes is waited for no longer than agreed, and not at all when only the exit is asked for", async () => {
    await using bench = new Bench();
    const { out } = make(bench, { diskBytes: 0, readerMs: 1 });
    for (let n = 0; n < 5; n++) await out.push(1, bytes("0123456789"));
    const other = make(bench, { diskBytes: 0 });
    other.out.readerNotExpected();
    for (let n = 0; n < 5; n++) await other.out.push(1, bytes("0123456789"));
    expect(other.out.summary().outputBytes).toBe(50);
  });

  test("a reader that comes back too late learns once how much is missing, and continues behind it", async () => {
    await using bench = new Bench();
    const { out } = make(bench, { diskBytes: 4 });
    out.readerNotExpected();
    for (let n = 0; n < 5; n++) await out.push(1, bytes("0123456789"));
    await out.finish();
    expect(new TextDecoder().decode((await out.read())?.data)).toBe("0123");
    const error = await errorOf(out.read());
    expect(error.code).toBe("EXHAUSTED");
    expect(error.message).toStartWith("36 bytes of output are missing");
    expect(await readAll(out)).toBe("1:0123456789");
  });

  test("is not waited for once the program has ended", async () => {
    await using bench = new Bench();
    const { out } = make(bench, { diskBytes: 0 });
    await out.push(1, bytes("0123456789"));
    const waiting = out.push(1, bytes("abcdefghij"));
    expect(await isPending(waiting)).toBe(true);
    out.drain();
    await waiting;
    await out.finish();
    expect(await readAll(out)).toBe("1:0123456789abcdefghij");
  });
});

test("very many small pieces of both streams stay within bounds and in order", async () => {
  await using bench = new Bench();
  const { out } = make(bench, { memoryBytes: 1 << 20, diskBytes: 1 << 20 });
  let sent = "";
  for (let n = 0; n < 20_000; n++) {
    sent += n % 10;
    await out.push(n % 2 === 0 ? 1 : 2, bytes(String(n % 10)));
  }
  await out.finish();
  expect((await readAll(out)).replaceAll(/ ?[12]:/g, "") === sent).toBe(true);
});

describe("a real program", () => {
  test("of 100 MB that no reader takes ends, with the beginning in the file and the rest counted", async () => {
    await using bench = new Bench();
    const child = await bench
      .children({ diskBytes: 1_000_000 })
      .exec(bench.owner(), bench.sh("printf start; head -c 100000000 /dev/zero"));
    const exit = await child.exited();
    expect(exit).toMatchObject({ code: 0, outputBytes: 100_000_005, droppedBytes: 99_000_005 });
    expect(dirname(exit.outputFile ?? "")).toBe(bench.spillDir);
    const kept = readFileSync(exit.outputFile ?? "");
    expect([kept.length, kept.subarray(0, 5).toString()]).toEqual([1_000_000, "start"]);
  });

  test("of 20 MB that is read arrives whole, whatever the cap", async () => {
    await using bench = new Bench();
    const request = bench.sh("seq 1 2500000", { maxOutput: 1000 });
    const child = await bench.children().exec(bench.owner(), request);
    const { out, exit } = await output(child);
    expect([out.length, out.slice(0, 4), out.slice(-8)]).toEqual([18_888_896, "1\n2\n", "2500000\n"]);
    expect(exit).toMatchObject({ outputBytes: 18_888_896, droppedBytes: 18_887_896 });
    expect(statSync(exit.outputFile ?? "").size).toBe(1000);
  });

  test("waits for a reader that pauses, then continues", async () => {
    await using bench = new Bench();
    const request = bench.sh("exec head -c 30000000 /dev/zero", { maxOutput: 0 });
    const child = await bench.children({ readerMs: 60_000 }).exec(bench.owner(), request);
    let read = (await child.read())?.data.length ?? 0;
    await until(() => isWritingToFullPipe(child.pid) && stateOf(child.pid) === "S");
    for (let piece = await child.read(); piece; piece = await child.read()) read += piece.data.length;
    expect(read).toBe(30_000_000);
  });

  test("does not wait for ever for a reader that has closed", async () => {
    await using bench = new Bench();
    const request = bench.sh("echo ready; exec head -c 30000000 /dev/zero", { maxOutput: 0 });
    const child = await bench.children({ readerMs: 20 }).exec(bench.owner(), request);
    await child.read();
    expect(await child.exited()).toMatchObject({ code: 0, outputBytes: 30_000_006 });
    let error: SyscallError | undefined;
    while (!error) await child.read().catch((caught) => (error = caught));
    expect(error.code).toBe("EXHAUSTED");
  });
});

/** The system call it hangs in, many times in a row: write(2) to stdout. */
function isWritingToFullPipe(pid: number): boolean {
  for (let look = 0; look < 50; look++) {
    const call = readFileSync(`/proc/${pid}/syscall`, "latin1").split(" ");
    if (call[1] !== "0x1") return false;
  }
  return true;
}
