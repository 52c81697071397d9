import { describe, expect, test } from "bun:test";
import { existsSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type ExecRequest, SyscallError } from "../../src/plugin/index.ts";
import { isAlive } from "../support/is-alive.ts";
import { until } from "../support/until.ts";
import { Bench, errorOf, firstLine, openDescriptors, output, PATH, stateOf } from "./support.ts";

describe("what a program gets", () => {
  test("its output comes apart by stream, and its exit code", async () => {
    await using bench = new Bench();
    const child = await bench.children().exec(bench.owner(), bench.sh("echo out; echo err >&2; exit 3"));
    const { out, err, exit } = await output(child);
    expect({ out, err }).toEqual({ out: "out\n", err: "err\n" });
    expect(exit).toEqual({ code: 3, signal: null, timedOut: false, outputBytes: 8, droppedBytes: 0 });
    expect(await child.read()).toBeNull();
  });

  test("its environment is the given one with the cookies, and without BUN_*", async () => {
    await using bench = new Bench();
    const env = {
      PATH,
      ONE: "1",
      BUN_OPTIONS: "--preload ./evil.ts",
      BUN_INSPECT: "1",
      RNIX_UNIT: "another",
    };
    const child = await bench.children().exec(bench.owner("uuid-7"), bench.sh("exec env", { env }));
    const variables = (await output(child)).out.trim().split("\n");
    expect(variables.filter((variable) => !variable.startsWith("PWD=")).sort()).toEqual([
      "ONE=1",
      `PATH=${PATH}`,
      `RNIX_CHILD=${bench.kernelId}.1`,
      "RNIX_UNIT=uuid-7",
    ]);
  });

  test("it leads a session and a group of its own, in the folder it was given", async () => {
    await using bench = new Bench();
    const child = await bench
      .children()
      .exec(bench.owner(), bench.sh("cat /proc/self/stat; pwd", { cwd: "/" }));
    const [stat = "", folder] = (await output(child)).out.split("\n");
    const [, , pgid, session] = stat
      .slice(stat.lastIndexOf(")") + 2)
      .split(" ")
      .map(Number);
    expect({ pgid, session, folder }).toEqual({ pgid: child.pid, session: child.pid, folder: "/" });
  });

  test("its standard streams can be opened by name, as scripts do", async () => {
    await using bench = new Bench();
    const script = "cat /dev/stdin > /dev/stdout; echo two > /dev/stderr";
    const child = await bench.children().exec(bench.owner(), bench.sh(script, { stdin: "pipe" }));
    await child.write("one");
    await child.end();
    expect(await output(child)).toMatchObject({ out: "one", err: "two\n" });
  });

  for (const [what, stdin, got] of [
    ["nothing", undefined, ""],
    ["an empty text", "", ""],
    ["a text", "grüße", "grüße"],
    ["bytes", new TextEncoder().encode("bytes"), "bytes"],
    ["more than a pipe holds", "x".repeat(3_000_000), "x".repeat(3_000_000)],
  ] as const) {
    test(`its stdin is ${what}, and then ends`, async () => {
      await using bench = new Bench();
      const child = await bench.children().exec(bench.owner(), bench.sh("exec cat", { stdin }));
      const { out } = await output(child);
      expect(out.length).toBe(got.length);
      expect(out === got).toBe(true);
    });
  }

  test("what is written to its stdin arrives in order, and end ends it", async () => {
    await using bench = new Bench();
    const child = await bench.children().exec(bench.owner(), bench.sh("exec cat", { stdin: "pipe" }));
    await child.write("ping\n");
    expect(await firstLine(child)).toBe("ping");
    const big = "y".repeat(1_000_000);
    const [, rest] = await Promise.all([child.write(big).then(() => child.end()), output(child)]);
    expect(rest.out === big).toBe(true);
  });

  test("with a terminal it has one, and reads from it", async () => {
    await using bench = new Bench();
    const script = "test -t 0 && test -t 1 && read line && echo got $line";
    const child = await bench.children().exec(bench.owner(), bench.sh(script, { pty: true, stdin: "pipe" }));
    await child.write("hello\n");
    const { out, exit } = await output(child);
    expect(out).toContain("got hello\r\n");
    expect(exit.code).toBe(0);
  });
});

describe("how it ends", () => {
  test("by a signal: the name, and no code", async () => {
    await using bench = new Bench();
    const child = await bench.children().exec(bench.owner(), bench.sh("kill -USR1 $$"));
    expect(await child.exited()).toMatchObject({ code: null, signal: "SIGUSR1", timedOut: false });
  });

  test("at its deadline, by TERM", async () => {
    await using bench = new Bench();
    const child = await bench
      .children()
      .exec(bench.owner(), bench.sh(`exec ${bench.nap} 1000`, { timeoutMs: 20 }));
    expect(await child.exited()).toMatchObject({ code: null, signal: "SIGTERM", timedOut: true });
  });

  test("at its deadline, deaf to TERM, by KILL after the grace, and all of its group with it", async () => {
    await using bench = new Bench();
    const script = `trap '' TERM; echo deaf; ${bench.nap} 1000 & ${bench.nap} 1000; ${bench.nap} 1000`;
    const children = bench.children({ graceMs: 100 });
    let ended: Awaited<ReturnType<typeof output>>;
    // On a busy machine the deadline may come before it is deaf.
    let timeoutMs = 50;
    do {
      const child = await children.exec(bench.owner(), bench.sh(script, { timeoutMs }));
      ended = await output(child);
      await child.kill();
      timeoutMs *= 2;
    } while (ended.out !== "deaf\n");
    expect(ended.exit).toMatchObject({ signal: "SIGKILL", timedOut: true });
    expect(bench.naps()).toEqual([]);
  });

  test("a stopped one receives TERM too", async () => {
    await using bench = new Bench();
    const child = await bench
      .children({ graceMs: 60_000 })
      .exec(bench.owner(), bench.sh(`exec ${bench.nap} 1000`));
    process.kill(child.pid, "SIGSTOP");
    await until(() => stateOf(child.pid) === "T");
    await child.kill();
    expect(await child.exited()).toMatchObject({ signal: "SIGTERM" });
  });

  test("one that ends well on TERM keeps its exit code and its last output", async () => {
    await using bench = new Bench();
    const script = `trap 'echo bye; exit 5' TERM; echo ready; while :; do ${bench.nap} 0.01; done`;
    const child = await bench.children().exec(bench.owner(), bench.sh(script));
    expect(await firstLine(child)).toBe("ready");
    await child.kill();
    expect(await output(child)).toMatchObject({ out: "bye\n", exit: { code: 5, signal: null } });
  });
});

describe("what it leaves behind ends with it", () => {
  for (const [what, script] of [
    ["a background program", "NAP 1000 &"],
    ["one that closed its pipes", "NAP 1000 >/dev/null 2>&1 </dev/null &"],
    ["one in its own session that holds the pipe", "setsid NAP 1000 &"],
    ["one in its own session without the pipe", "setsid NAP 1000 >/dev/null 2>&1 </dev/null &"],
    ["one that forked twice", "(setsid sh -c 'NAP 1000 & NAP 1000 &' >/dev/null 2>&1 &)"],
    ["one that cleared its environment and holds the pipe", "env -i setsid NAP 1000 &"],
    [
      "one that cleared its environment and closed all",
      "env -i setsid NAP 1000 >/dev/null 2>&1 </dev/null &",
    ],
    ["one that is deaf to TERM", "(trap '' TERM; exec setsid NAP 1000) &"],
    ["one that is stopped", "NAP 1000 & until pgrep -x NAME; do :; done >/dev/null; kill -STOP $!"],
  ] as const) {
    test(what, async () => {
      await using bench = new Bench();
      const children = bench.children({ graceMs: 100 });
      const started = `until [ $(pgrep -x -c ${bench.name}) -gt 0 ]; do :; done; echo done`;
      const child = await children.exec(
        bench.owner(),
        bench.sh(`${script.replaceAll("NAP", bench.nap).replace("NAME", bench.name)}\n${started}`),
      );
      const { out, exit } = await output(child);
      expect({ out, code: exit.code }).toEqual({ out: "done\n", code: 0 });
      await children.endCall("uuid-1", "call-1");
      expect(bench.naps()).toEqual([]);
      expect(bench.faults).toEqual([]);
    });
  }

  test("a redirection that is still being written may finish", async () => {
    await using bench = new Bench();
    const file = join(bench.dir, "log");
    const script = `(${bench.nap} 0.02; echo late > ${file}) >/dev/null 2>&1 & exit 0`;
    // What is left is waited for at most this long, and only while it is there.
    const children = bench.children({ quietMs: 10_000 });
    const child = await children.exec(bench.owner(), bench.sh(script));
    await child.exited();
    await until(() => existsSync(file) && readFileSync(file, "utf8") === "late\n");
  });

  test("without a request", async () => {
    await using bench = new Bench();
    const child = await bench.children().exec(bench.owner(), bench.sh(`setsid ${bench.nap} 1000 & echo $!`));
    const pid = Number(await firstLine(child));
    expect((await child.exited()).code).toBe(0);
    await until(() => !isAlive(pid));
  });
});

describe("what is refused", () => {
  for (const [what, request, code, message] of [
    ["a program that is nowhere in PATH", { argv: ["no-such-program"] }, "NOT_FOUND", "not found in PATH"],
    [
      "a program by a wrong path",
      { argv: ["/nowhere/x"] },
      "NOT_FOUND",
      "The program /nowhere/x does not exist",
    ],
    ["a script whose interpreter is missing", { argv: ["./broken"] }, "NOT_FOUND", "interpreter"],
    ["a file that is not executable", { argv: ["./plain"] }, "PERMISSION", "chmod +x"],
    [
      "a working folder that does not exist",
      { cwd: "/no/such/folder" },
      "NOT_FOUND",
      "working folder /no/such/folder",
    ],
    ["a working folder that is a file", { cwd: "/etc/passwd" }, "INVALID", "is not a folder"],
    ["a relative working folder", { cwd: "src" }, "INVALID", "absolute"],
    ["no working folder", { cwd: undefined }, "INVALID", "absolute"],
    ["no program", { argv: [] }, "INVALID", "argv"],
    ["a zero byte", { argv: ["echo", "a\0b"] }, "INVALID", "zero byte"],
    ["arguments beyond the system's limit", { argv: ["true", "x".repeat(3_000_000)] }, "INVALID", "too long"],
    ["a deadline that is none", { timeoutMs: 0 }, "INVALID", "timeoutMs"],
    ["a cap below nothing", { maxOutput: -1 }, "INVALID", "maxOutput"],
  ] as const) {
    test(what, async () => {
      await using bench = new Bench();
      writeFileSync(join(bench.dir, "broken"), "#!/no/such/interpreter\n", { mode: 0o755 });
      writeFileSync(join(bench.dir, "plain"), "#!/bin/sh\n", { mode: 0o644 });
      const children = bench.children();
      const before = openDescriptors();
      const wanted: ExecRequest = {
        ...bench.sh("true"),
        ...request,
        argv: [...("argv" in request ? request.argv : ["true"])],
      };
      const error = await errorOf(children.exec(bench.owner(), wanted));
      expect(error).toBeInstanceOf(SyscallError);
      expect(error.code).toBe(code);
      expect(error.message).toContain(message);
      expect(children.list()).toEqual([]);
      expect(openDescriptors() - before).toBeLessThanOrEqual(1); // the ledger
    });
  }

  test("a program whose ledger line cannot be written does not start", async () => {
    await using bench = new Bench();
    writeFileSync(bench.ledgerDir, "in the way");
    const mark = join(bench.dir, "ran");
    const error = await errorOf(bench.children().exec(bench.owner(), bench.sh(`touch ${mark}`)));
    expect(error.code).toBe("UNAVAILABLE");
    expect(error.message).toContain(bench.ledgerDir);
    expect(existsSync(mark)).toBe(false);
  });

  test("writing to a program without a pipe, and to one that has ended", async () => {
    await using bench = new Bench();
    const children = bench.children();
    const without = await children.exec(bench.owner(), bench.sh("true"));
    expect((await errorOf(without.write("x"))).code).toBe("INVALID");
    const ended = await children.exec(bench.owner(), bench.sh("true", { stdin: "pipe" }));
    await ended.exited();
    expect((await errorOf(ended.write("x"))).code).toBe("CLOSED");
    await ended.end();
  });

  test("a write larger than a program reads before it ends is CLOSED, and does not hang", async () => {
    await using bench = new Bench();
    const script = `setsid ${bench.nap} 1000 & read line; exit 0`;
    const child = await bench.children().exec(bench.owner(), bench.sh(script, { stdin: "pipe" }));
    expect((await errorOf(child.write(`line\n${"x".repeat(5_000_000)}`))).code).toBe("CLOSED");
  });

  test("a second read during the first", async () => {
    await using bench = new Bench();
    const child = await bench.children().exec(bench.owner(), bench.sh("read x; echo $x", { stdin: "pipe" }));
    const first = child.read();
    expect((await errorOf(child.read())).code).toBe("INVALID");
    await child.write("later\n");
    expect(new TextDecoder().decode((await first)?.data)).toBe("later\n");
  });
});

describe("the owner of a program", () => {
  test("a call's end ends its own programs and no other's", async () => {
    await using bench = new Bench();
    const children = bench.children();
    const nap = (life: ExecRequest["life"]): ExecRequest => bench.sh(`exec ${bench.nap} 1000`, { life });
    const mine = await children.exec(bench.owner("a", "1"), nap("call"));
    const sibling = await children.exec(bench.owner("a", "2"), nap("call"));
    const background = await children.exec(bench.owner("a", "1"), nap("process"));
    const stranger = await children.exec(bench.owner("b", "1"), nap("call"));
    const alive = (): boolean[] => [mine, sibling, background, stranger].map(({ pid }) => isAlive(pid));
    await children.endCall("a", "1");
    expect(alive()).toEqual([false, true, true, true]);
    await children.endOwner("a");
    expect(alive()).toEqual([false, false, false, true]);
    await children.close();
    expect(alive()).toEqual([false, false, false, false]);
  });

  test("processes left by one program end without touching its siblings", async () => {
    await using bench = new Bench();
    const children = bench.children();
    const sibling = await children.exec(
      bench.owner(),
      bench.sh(`setsid ${bench.nap} 1000 & echo ready; wait`, { life: "process" }),
    );
    expect(await firstLine(sibling)).toBe("ready");
    await until(() => bench.naps().length === 1);
    const child = await children.exec(
      bench.owner(),
      bench.sh(`setsid ${bench.nap} 1000 >/dev/null 2>&1 & true`),
    );
    await child.exited();
    await children.endCall("uuid-1", "call-1");
    expect(bench.naps()).toHaveLength(1);
    expect(isAlive(sibling.pid)).toBe(true);
  });

  test("the list shows each program and its owner", async () => {
    await using bench = new Bench();
    const children = bench.children();
    const child = await children.exec(bench.owner("a"), bench.sh(`exec ${bench.nap} 1000`));
    expect(children.list()).toEqual([{ pid: child.pid, uuid: "a" }]);
    await child.kill();
    expect(children.list()).toEqual([]);
  });

  test("after close nothing starts", async () => {
    await using bench = new Bench();
    const children = bench.children();
    await children.close();
    expect((await errorOf(children.exec(bench.owner(), bench.sh("true")))).code).toBe("CLOSED");
  });
});

describe("a shared program", () => {
  const shared = (idleMs = 60_000): { life: ExecRequest["life"] } => ({ life: { shared: "server", idleMs } });

  test("is one for all that name its key, and outlives the calls that use it", async () => {
    await using bench = new Bench();
    const children = bench.children();
    const request = bench.sh(`exec ${bench.nap} 1000`, shared());
    const first = await children.exec(bench.owner("a"), request);
    const second = await children.exec(bench.owner("b"), request);
    expect([first.reused, second.reused, second.pid === first.pid]).toEqual([false, true, true]);
    await children.endCall("a", "call-1");
    await children.endOwner("b");
    expect(isAlive(first.pid)).toBe(true);
    expect((await children.exec(bench.owner("c"), request)).pid).toBe(first.pid);
  });

  test("ends when no call has used it for its idle time", async () => {
    await using bench = new Bench();
    const children = bench.children();
    const request = bench.sh(`exec ${bench.nap} 1000`, shared(1));
    const child = await children.exec(bench.owner("a"), request);
    await children.exec(bench.owner("b"), request);
    await children.endCall("a", "call-1");
    expect(isAlive(child.pid)).toBe(true);
    await children.endCall("b", "call-1");
    expect(await child.exited()).toMatchObject({ signal: "SIGTERM" });
    await until(() => children.list().length === 0);
  });

  test("is started again after it has ended", async () => {
    await using bench = new Bench();
    const children = bench.children();
    const first = await children.exec(bench.owner("a"), bench.sh("exit 0", shared()));
    await first.exited();
    const second = await children.exec(bench.owner("a"), bench.sh("exit 0", shared()));
    expect(second.reused).toBe(false);
    expect(second.pid).not.toBe(first.pid);
  });
});

describe("the ledger", () => {
  const lines = (bench: Bench): Record<string, unknown>[] =>
    readFileSync(join(bench.ledgerDir, `${bench.kernelId}.jsonl`), "utf8")
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line));

  test("has the intent before the program runs, then its PID, then its end", async () => {
    await using bench = new Bench();
    const children = bench.children();
    const script = `grep -c intent ${join(bench.ledgerDir, `${bench.kernelId}.jsonl`)}; read line`;
    const child = await children.exec(bench.owner("a", "c"), bench.sh(script, { stdin: "pipe" }));
    expect(await firstLine(child)).toBe("1");
    expect(lines(bench).slice(1)).toEqual([
      {
        t: "intent",
        id: `${bench.kernelId}.1`,
        uuid: "a",
        call: "c",
        mark: expect.stringMatching(/^\d+$/),
        argv: ["sh", "-c", script],
        cwd: bench.dir,
        at: expect.stringMatching(/^\d{4}-.*Z$/),
      },
      {
        t: "start",
        id: `${bench.kernelId}.1`,
        pid: child.pid,
        start: expect.any(String),
        boot: expect.any(String),
      },
    ]);
    await child.end();
    await children.endOwner("a");
    expect(lines(bench).at(-1)).toEqual({ t: "end", id: `${bench.kernelId}.1` });
    expect(statSync(join(bench.ledgerDir, `${bench.kernelId}.jsonl`)).mode & 0o777).toBe(0o600);
  });

  test("is removed when the kernel has closed with nothing left", async () => {
    await using bench = new Bench();
    const children = bench.children();
    await children.exec(bench.owner(), bench.sh(`exec ${bench.nap} 1000`));
    expect(readdirSync(bench.ledgerDir)).toEqual([`${bench.kernelId}.jsonl`]);
    await children.close();
    expect(readdirSync(bench.ledgerDir)).toEqual([]);
  });

  test("does not grow with programs that have ended", async () => {
    await using bench = new Bench();
    const children = bench.children();
    const kept = await children.exec(bench.owner(), bench.sh(`exec ${bench.nap} 1000`));
    const long = "x".repeat(900);
    for (let n = 0; n < 300; n++) {
      const child = await children.exec(bench.owner(), bench.sh("exit 0", { argv: ["true", long] }));
      await child.kill();
    }
    expect(statSync(join(bench.ledgerDir, `${bench.kernelId}.jsonl`)).size).toBeLessThan(300_000);
    expect(lines(bench).filter((line) => line.pid === kept.pid)).toHaveLength(1);
  });
});

test("a hundred programs leave no descriptor, no entry and no zombie", async () => {
  await using bench = new Bench();
  const children = bench.children();
  const run = async (): Promise<void> => {
    const child = await children.exec(bench.owner(), bench.sh(`exec ${bench.nap} 0`, { stdin: "pipe" }));
    await child.exited();
    await children.endCall("uuid-1", "call-1");
  };
  await run();
  const before = openDescriptors();
  for (let n = 0; n < 10; n++) await Promise.all(Array.from({ length: 10 }, run));
  await until(() => openDescriptors() <= before);
  expect(children.list()).toEqual([]);
  expect(bench.traces()).toEqual([]);
});

test("a program that prints as fast as it is read does not starve the others", async () => {
  await using bench = new Bench();
  // Beyond its file, which would be waited for.
  const children = bench.children({ diskBytes: 1000 });
  const child = await children.exec(bench.owner(), bench.sh("yes chatter | head -c 268435456"));
  // How many pieces came without a turn of the loop between them.
  let turn = false;
  let reading = true;
  const next = (): void => {
    turn = true;
    if (reading) setImmediate(next);
  };
  setImmediate(next);
  let held = 0;
  let longest = 0;
  while ((await child.read()) !== null) {
    held = turn ? 0 : held + 1;
    longest = Math.max(longest, held);
    turn = false;
  }
  reading = false;
  await child.exited();
  expect(longest).toBeLessThan(5);
});
