import { describe, expect, test } from "bun:test";
import { SIGKILL, SIGPAUSE, SIGRESUME, SIGTERM } from "../../src/lib/signals.ts";
import { SyscallError } from "../../src/plugin/index.ts";
import { realFs } from "../../src/store/files/fs-port.ts";
import { codeOf } from "../support/failure.ts";
import { FakeClock, settled } from "../support/fake-clock.ts";
import { HeldDisk } from "../support/held-disk.ts";
import { idle } from "../support/idle.ts";
import { KernelHarness, says, script } from "../support/kernel.ts";
import { until } from "../support/until.ts";

const harness = (more: Partial<ConstructorParameters<typeof KernelHarness>[0]> = {}): KernelHarness =>
  new KernelHarness({ model: script(says("done")), ...more });

describe("Send", () => {
  test("puts a message into the receiver's inbox: its sender, number, time and text", async () => {
    const clock = new FakeClock();
    await using h = harness({ clock });
    const [a, b] = [await idle(h), await idle(h)];
    const sent = await h.kernel.ipc.send(a.pid, b.pid, "hällo");
    const ts = new Date(clock.now()).toISOString();
    expect(sent).toEqual({ from_pid: a.pid, from_uuid: a.uuid, seq: 1, ts, data: "hällo" });
    expect(await h.kernel.ipc.recv(b.pid)).toEqual(sent);
  });

  test("takes bytes that are text, and no others", async () => {
    await using h = harness();
    const { pid } = await idle(h);
    await h.kernel.ipc.send(pid, pid, new TextEncoder().encode("世界"));
    expect(await h.kernel.ipc.recv(pid)).toMatchObject({ data: "世界" });
    expect(await codeOf(() => h.kernel.ipc.send(pid, pid, new Uint8Array([0xff, 0xfe])))).toBe("INVALID");
  });

  test("of PID 0 reaches every project, and is the operator's", async () => {
    await using h = harness();
    const { pid } = await idle(h);
    expect(await h.kernel.ipc.send(0, pid, "x")).toMatchObject({ from_pid: 0, from_uuid: null });
  });

  test("preserves the order of each sender", async () => {
    await using h = harness();
    const [a, b, to] = [await idle(h), await idle(h), await idle(h)];
    const sends = Array.from({ length: 40 }, (_, n) =>
      h.kernel.ipc.send(n % 2 ? a.pid : b.pid, to.pid, `${n}`),
    );
    await Promise.all(sends);
    const got = [];
    while (got.length < 40) got.push(Number((await h.kernel.ipc.recv(to.pid)).data));
    for (const of of [0, 1]) {
      const mine = got.filter((n) => n % 2 === of);
      expect(mine).toEqual(mine.toSorted((x, y) => x - y));
    }
  });

  test("is on disk before a waiting receiver is woken", async () => {
    const disk = new HeldDisk();
    await using h = harness({ fs: disk.fs });
    const { pid, uuid } = await idle(h);
    disk.hold();
    let received = false;
    const receiving = h.kernel.ipc.recv(pid).then(() => {
      received = true;
    });
    const sending = h.kernel.ipc.send(0, pid, "x");
    await until(() => disk.isWaiting);
    await settled();
    expect(received).toBe(false);
    expect((await h.runs.inbox(uuid)).unread).toMatchObject([{ data: "x" }]);
    disk.release();
    await Promise.all([sending, receiving]);
  });

  test("is NOT_FOUND for an unknown process, CLOSED for one that is ending or has ended", async () => {
    await using h = harness();
    const [a, b] = [await idle(h), await idle(h)];
    expect(await codeOf(() => h.kernel.ipc.send(a.pid, 99, "x"))).toBe("NOT_FOUND");
    expect(await codeOf(() => h.kernel.ipc.send(99, a.pid, "x"))).toBe("NOT_FOUND");
    h.kernel.processes.kill(b.pid, SIGTERM);
    expect(await codeOf(() => h.kernel.ipc.send(a.pid, b.pid, "x"))).toBe("CLOSED");
    await b.done;
    expect(await codeOf(() => h.kernel.ipc.send(a.pid, b.pid, "x"))).toBe("CLOSED");
    await h.kernel.processes.wait(b.pid);
    expect(await codeOf(() => h.kernel.ipc.send(a.pid, b.pid, "x"))).toBe("NOT_FOUND");
  });

  test("to a process of another project is PERMISSION", async () => {
    await using h = harness();
    const a = await idle(h);
    const b = await idle(h, { project: { ...a.spec.opts.project, id: "other", dir: h.dir } });
    expect(await codeOf(() => h.kernel.ipc.send(a.pid, b.pid, "x"))).toBe("PERMISSION");
    expect(await codeOf(() => h.kernel.ipc.pipe(a.pid, b.pid))).toBe("PERMISSION");
    await h.kernel.ipc.send(0, b.pid, "x");
  });

  test("into a full inbox is EXHAUSTED: by number, and by size", async () => {
    await using h = harness();
    const [a, b, c] = [await idle(h), await idle(h), await idle(h)];
    const send = (to: number, data: string) => h.kernel.ipc.send(a.pid, to, data);
    await Promise.all(Array.from({ length: 256 }, () => send(b.pid, "x")));
    expect(await codeOf(() => send(b.pid, "x"))).toBe("EXHAUSTED");
    await h.kernel.ipc.recv(b.pid);
    await send(b.pid, "x");
    const large = "x".repeat(64 * 1024);
    await Promise.all(Array.from({ length: 16 }, () => send(c.pid, large)));
    expect(await codeOf(() => send(c.pid, "x"))).toBe("EXHAUSTED");
    expect(await codeOf(() => send(c.pid, `${large}x`))).toBe("INVALID");
  });

  test("that the disk refuses is the sender's error, and uses no inbox space", async () => {
    let failing = false;
    const fs = {
      ...realFs,
      write: (fd: number, data: Uint8Array) => {
        if (failing) throw Object.assign(new Error("no"), { code: "ENOSPC" });
        return realFs.write(fd, data);
      },
    };
    await using h = harness({ fs });
    const { pid } = await idle(h);
    failing = true;
    for (let n = 0; n < 300; n++) {
      expect(await codeOf(() => h.kernel.ipc.send(0, pid, "x"))).toBe("EXHAUSTED");
    }
    failing = false;
    await h.kernel.ipc.send(0, pid, "y");
    expect(await h.kernel.ipc.recv(pid)).toMatchObject({ data: "y" });
  });
});

describe("Recv", () => {
  test("waits for the first message; several receivers are served in their order", async () => {
    await using h = harness();
    const { pid } = await idle(h);
    const got: string[] = [];
    const waiting = [1, 2, 3].map((n) =>
      h.kernel.ipc.recv(pid).then(({ data }) => void got.push(`${n} ${data}`)),
    );
    for (const data of ["a", "b", "c"]) await h.kernel.ipc.send(0, pid, data);
    await Promise.all(waiting);
    expect(got).toEqual(["1 a", "2 b", "3 c"]);
  });

  test("ends with TIMEOUT when no message came in time; the next receive gets a later one", async () => {
    const clock = new FakeClock();
    await using h = harness({ clock });
    const { pid } = await idle(h);
    const waiting = codeOf(() => h.kernel.ipc.recv(pid, { timeoutMs: 1_000 }));
    await clock.advance(999);
    await clock.advance(1);
    expect(await waiting).toBe("TIMEOUT");
    await h.kernel.ipc.send(0, pid, "late");
    expect(await h.kernel.ipc.recv(pid)).toMatchObject({ data: "late" });
    await h.kernel.shutdown({ now: true });
    expect(clock.pending).toBe(0);
  });

  test("does not count the time that its process is paused", async () => {
    const clock = new FakeClock();
    await using h = harness({ clock });
    const { pid } = await idle(h);
    let ended = false;
    const waiting = codeOf(() => h.kernel.ipc.recv(pid, { timeoutMs: 1_000 })).finally(() => {
      ended = true;
    });
    await clock.advance(600);
    h.kernel.processes.kill(pid, SIGPAUSE);
    await clock.advance(3_600_000);
    expect(ended).toBe(false);
    h.kernel.processes.kill(pid, SIGRESUME);
    await clock.advance(400);
    expect(await waiting).toBe("TIMEOUT");
  });

  test("ends with the signal's own reason", async () => {
    await using h = harness();
    const { pid } = await idle(h);
    const controller = new AbortController();
    const waiting = codeOf(() => h.kernel.ipc.recv(pid, { signal: controller.signal }));
    controller.abort(new SyscallError("CANCELLED", "no more"));
    expect(await waiting).toBe("CANCELLED");
  });

  test("ends when its process is asked to end, and is CLOSED once it has", async () => {
    await using h = harness();
    const { pid } = await idle(h);
    const waiting = codeOf(() => h.kernel.ipc.recv(pid));
    h.kernel.processes.kill(pid, SIGKILL);
    expect(await waiting).toBe("CANCELLED");
    const zombie = await codeOf(() => h.kernel.ipc.recv(pid));
    expect(["CLOSED", "CANCELLED"]).toContain(zombie ?? "");
    await h.kernel.processes.wait(pid);
    expect(await codeOf(() => h.kernel.ipc.recv(pid))).toBe("NOT_FOUND");
  });

  test("has a limit of waiting receivers", async () => {
    await using h = harness();
    const { pid } = await idle(h);
    const waiting = Array.from({ length: 64 }, () => codeOf(() => h.kernel.ipc.recv(pid)));
    expect(await codeOf(() => h.kernel.ipc.recv(pid))).toBe("EXHAUSTED");
    h.kernel.processes.kill(pid, SIGKILL);
    expect(new Set(await Promise.all(waiting))).toEqual(new Set(["CANCELLED"]));
  });

  test("takes a message for good: it is not read from disk again", async () => {
    await using h = harness();
    const { pid, uuid } = await idle(h);
    await h.kernel.ipc.send(0, pid, "a");
    await h.kernel.ipc.send(0, pid, "b");
    await h.kernel.ipc.recv(pid);
    h.kernel.processes.kill(pid, SIGKILL);
    await h.kernel.processes.wait(pid);
    expect((await h.runs.inbox(uuid)).unread).toMatchObject([{ data: "b" }]);
  });
});

describe("the trace", () => {
  test("records Send, Recv and Pipe with their arguments and results", async () => {
    await using h = harness();
    const [a, b] = [await idle(h), await idle(h)];
    await h.kernel.ipc.send(a.pid, b.pid, "x");
    await h.kernel.ipc.send(0, b.pid, "y");
    await h.kernel.ipc.recv(b.pid, { timeoutMs: 50 });
    await h.kernel.ipc.pipe(a.pid, b.pid);
    expect(await codeOf(() => h.kernel.ipc.send(a.pid, 99, "x"))).toBe("NOT_FOUND");
    await h.kernel.shutdown({ now: true });
    const of = async (uuid: string) =>
      (await h.runs.events(uuid)).records
        .filter(({ syscall }) => ["Send", "Recv", "Pipe"].includes(syscall))
        .map(({ syscall, args, result, error_code }) => ({ syscall, args, result: result ?? error_code }));
    expect(await of(a.uuid)).toEqual([
      { syscall: "Send", args: { to: b.pid, size: 1 }, result: 1 },
      { syscall: "Pipe", args: { writer: a.pid, reader: b.pid }, result: { writeFd: 3, readFd: 3 } },
      { syscall: "Send", args: { to: 99, size: 1 }, result: "NOT_FOUND" },
    ]);
    expect(await of(b.uuid)).toEqual([
      { syscall: "Send", args: { to: b.pid, size: 1, by: 0 }, result: 2 },
      { syscall: "Recv", args: { timeout_ms: 50 }, result: 1 },
    ]);
  });
});
