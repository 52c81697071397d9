import { describe, expect, test } from "bun:test";
import { PIPE_BYTES, Pipe } from "../../../src/kernel/ipc/pipe.ts";
import { SIGKILL } from "../../../src/lib/signals.ts";
import { SyscallError, type VFSFile } from "../../../src/plugin/index.ts";
import { settled as ended, expectCode, expectStat } from "../../support/conformance/vfs-file.ts";
import { codeOf, failure } from "../../support/failure.ts";
import { settled } from "../../support/fake-clock.ts";
import { idle } from "../../support/idle.ts";
import { KernelHarness, says, script } from "../../support/kernel.ts";
import { seeded } from "../../support/seeded.ts";

const never = new AbortController().signal;

function abortable(): { signal: AbortSignal; abort(): void } {
  const controller = new AbortController();
  return {
    signal: controller.signal,
    abort: () => controller.abort(new SyscallError("CANCELLED", "The test gave up.")),
  };
}

/** Everything up to the end. */
async function drain(reader: VFSFile, max = 1000): Promise<Buffer> {
  const pieces: Uint8Array[] = [];
  for (;;) {
    const piece = await reader.read(max, never);
    if (!(piece instanceof Uint8Array)) throw new Error("a pipe answers bytes");
    expect(piece.length).toBeLessThanOrEqual(max);
    if (piece.length === 0) return Buffer.concat(pieces);
    pieces.push(piece);
  }
}

/** Whether it has ended. */
async function isOver(work: Promise<unknown>): Promise<boolean> {
  let over = false;
  work.finally(() => {
    over = true;
  });
  await settled();
  return over;
}

describe("a pipe", () => {
  test("returns what was written, text and bytes, in order and at most the requested length", async () => {
    const { writer, reader } = new Pipe("p");
    await writer.write("grün ", never);
    await writer.write(new Uint8Array([0, 255]), never);
    await writer.write("", never);
    expect(await reader.read(3, never)).toEqual(new Uint8Array(Buffer.from("grü").subarray(0, 3)));
    expect(await reader.read(100, never)).toEqual(
      new Uint8Array([...Buffer.from("grün ").subarray(3), 0, 255]),
    );
  });

  test("makes a read wait for one write only", async () => {
    const { writer, reader } = new Pipe("p");
    const read = reader.read(100, never);
    expect(await isOver(read)).toBe(false);
    await writer.write("x", never);
    expect(Buffer.from(await read).toString()).toBe("x");
  });

  test("makes a write wait for space: the buffer has at most 64 KiB", async () => {
    const { writer, reader } = new Pipe("p");
    const data = Buffer.alloc(3 * PIPE_BYTES, "abcdefg");
    const write = writer.write(data, never);
    expect(await isOver(write)).toBe(false);
    expect((await reader.stat()).size).toBe(PIPE_BYTES);
    const first = Buffer.from(await reader.read(PIPE_BYTES, never));
    expect(first.length).toBe(PIPE_BYTES);
    expect(await isOver(write)).toBe(false);
    const rest = drain(reader, 10_000);
    await write;
    await writer.close();
    expect(Buffer.concat([first, await rest]).equals(data)).toBe(true);
  });

  test("copies the writer's buffer", async () => {
    const { writer, reader } = new Pipe("p");
    const data = new Uint8Array([1, 2, 3]);
    await writer.write(data, never);
    data.fill(9);
    expect(await reader.read(10, never)).toEqual(new Uint8Array([1, 2, 3]));
  });

  test("ends with an empty read when its writer has closed and all is read, then and later", async () => {
    const { writer, reader } = new Pipe("p");
    await writer.write("rest", never);
    await writer.close();
    expect(String(await drain(reader))).toBe("rest");
    expect(await reader.read(10, never)).toHaveLength(0);
  });

  test("releases a waiting reader when the writer closes", async () => {
    const { writer, reader } = new Pipe("p");
    const read = reader.read(10, never);
    await writer.close();
    expect(await read).toHaveLength(0);
  });

  test("is CLOSED to the writer when the reader has closed, also while it waits for space", async () => {
    const { writer, reader } = new Pipe("p");
    const waiting = failure(() => writer.write(Buffer.alloc(PIPE_BYTES + 1), never));
    await settled();
    await reader.close();
    const error = await waiting;
    expectCode(error, "CLOSED");
    expect(error.message).toContain(`${PIPE_BYTES} of ${PIPE_BYTES + 1} bytes`);
    expectCode(await failure(() => writer.write("x", never)), "CLOSED");
  });

  test("is CLOSED for a process that uses a closed end, also while it waits", async () => {
    const { writer, reader } = new Pipe("p");
    const reading = failure(() => reader.read(1, never));
    await settled();
    await reader.close();
    expectCode(await reading, "CLOSED");
    await writer.close();
    expectCode(await failure(() => writer.write("x", never)), "CLOSED");
  });

  test("returns the number of bytes that an aborted write has written; those are read", async () => {
    const { writer, reader } = new Pipe("p");
    const { signal, abort } = abortable();
    const writing = failure(() => writer.write(Buffer.alloc(PIPE_BYTES + 5, "x"), signal));
    await settled();
    abort();
    const error = await writing;
    expectCode(error, "CANCELLED");
    expect(error.message).toContain(`${PIPE_BYTES} of ${PIPE_BYTES + 5} bytes`);
    await writer.close();
    expect(await drain(reader)).toHaveLength(PIPE_BYTES);
  });

  test("loses and reorders nothing, for random sizes and turns", async () => {
    for (const seed of [1, 2, 3, 4, 5]) {
      const random = seeded(seed);
      const below = (n: number): number => Math.floor(random() * n);
      const { writer, reader } = new Pipe("p");
      const sent: Buffer[] = [];
      const got: Uint8Array[] = [];
      const write = async (): Promise<void> => {
        for (let n = 0; n < 200; n++) {
          const piece = Buffer.from(Array.from({ length: below(3000) }, () => below(256)));
          sent.push(piece);
          await writer.write(piece, never);
          if (below(3) === 0) await settled();
        }
        await writer.close();
      };
      const read = async (): Promise<void> => {
        for (;;) {
          const piece = await reader.read(1 + below(5000), never);
          if (piece.length === 0) return;
          got.push(Buffer.from(piece));
          if (below(3) === 0) await settled();
        }
      };
      await Promise.all([write(), read()]);
      expect(Buffer.concat(got).equals(Buffer.concat(sent))).toBe(true);
      await reader.close();
    }
  });
});

describe("each end is a VFSFile as the contract has it", () => {
  const ends = ["writer", "reader"] as const;

  test.each(ends)("the %s describes itself, and closes once, unused", async (end) => {
    const file = new Pipe("/pipe")[end];
    expectStat(await file.stat(), "/pipe");
    expect(await file.close()).toBeUndefined();
  });

  test("the wrong direction is PERMISSION", async () => {
    const { writer, reader } = new Pipe("p");
    expectCode(await failure(() => writer.read(1, never)), "PERMISSION");
    expectCode(await failure(() => reader.write("x", never)), "PERMISSION");
  });

  test("an abort is answered with CANCELLED at once, and it closes after it", async () => {
    const { writer, reader } = new Pipe("p");
    const { signal, abort } = abortable();
    const reading = failure(() => reader.read(1, signal));
    await settled();
    abort();
    expectCode(await reading, "CANCELLED");
    expect(await reader.close()).toBeUndefined();
    expect(await writer.close()).toBeUndefined();
  });

  test("nothing begins under an aborted signal", async () => {
    const { writer, reader } = new Pipe("p");
    const signal = AbortSignal.abort(new SyscallError("CANCELLED", "Too late."));
    expectCode(await failure(() => writer.write("x", signal)), "CANCELLED");
    expectCode(await failure(() => reader.read(1, signal)), "CANCELLED");
    expect((await reader.stat()).size).toBe(0);
  });

  test("any bytes pass through", async () => {
    for (const data of ["", "{", "[]", new Uint8Array([0, 255, 254])]) {
      const { writer, reader } = new Pipe("p");
      expect(await ended(() => writer.write(data, never))).toBeUndefined();
      await writer.close();
      expect(await drain(reader)).toEqual(Buffer.from(data));
    }
  });
});

describe("Pipe", () => {
  const harness = (): KernelHarness => new KernelHarness({ model: script(says("done")) });

  test("puts an end into each process's table, which works like any file", async () => {
    await using h = harness();
    const { ipc, files } = h.kernel;
    const [a, b] = [await idle(h), await idle(h)];
    const { writeFd, readFd } = await ipc.pipe(a.pid, b.pid);
    await files.write(a, writeFd, "through");
    expect(Buffer.from(await files.read(b, readFd, 100)).toString()).toBe("through");
    expect(await codeOf(() => files.read(a, writeFd, 1))).toBe("PERMISSION");
    expect(await codeOf(() => files.write(b, readFd, "x"))).toBe("PERMISSION");
    await files.close(a, writeFd);
    expect(await files.read(b, readFd, 100)).toHaveLength(0);
    expect(await codeOf(() => files.write(a, writeFd, "x"))).toBe("NOT_FOUND");
  });

  test("may connect a process with itself", async () => {
    await using h = harness();
    const { ipc, files } = h.kernel;
    const a = await idle(h);
    const { writeFd, readFd } = await ipc.pipe(a.pid, a.pid);
    expect(writeFd).not.toBe(readFd);
    await files.write(a, writeFd, "x");
    expect(await files.read(a, readFd, 9)).toHaveLength(1);
  });

  test("ends with its processes: the reader sees the end, the writer fails because no reader is left", async () => {
    await using h = harness();
    const { ipc, files } = h.kernel;
    const [a, b, c] = [await idle(h), await idle(h), await idle(h)];
    const toB = await ipc.pipe(a.pid, b.pid);
    const toC = await ipc.pipe(b.pid, c.pid);
    const reading = files.read(b, toB.readFd, 10);
    h.kernel.processes.kill(a.pid, SIGKILL);
    expect(await reading).toHaveLength(0);
    const writing = codeOf(() => files.write(b, toC.writeFd, Buffer.alloc(PIPE_BYTES + 1)));
    h.kernel.processes.kill(c.pid, SIGKILL);
    expect(await writing).toBe("CLOSED");
  });

  test("of a process that has ended or is ending is refused", async () => {
    await using h = harness();
    const [a, b] = [await idle(h), await idle(h)];
    h.kernel.processes.kill(b.pid, SIGKILL);
    expect(await codeOf(() => h.kernel.ipc.pipe(a.pid, b.pid))).toBe("CLOSED");
    await h.kernel.processes.wait(b.pid);
    expect(await codeOf(() => h.kernel.ipc.pipe(a.pid, b.pid))).toBe("NOT_FOUND");
    expect(await codeOf(() => h.kernel.ipc.pipe(b.pid, a.pid))).toBe("NOT_FOUND");
    expect(a.fds.list().map(({ path }) => path)).toEqual([]);
  });
});
