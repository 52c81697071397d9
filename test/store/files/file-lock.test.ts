import { describe, expect, test } from "bun:test";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { FileLock, type LockClock } from "../../../src/store/files/file-lock.ts";
import { codeOf, modes, openFiles, program, temporaryFolder, until } from "../support.ts";

describe("FileLock", () => {
  test("has one holder at a time, also within one process", () => {
    const dir = temporaryFolder();
    const path = join(dir, "kernels", "k1");
    const lock = FileLock.tryAcquire(path);
    expect(lock?.path).toBe(path);
    expect(FileLock.tryAcquire(path)).toBeNull();
    expect(FileLock.isFree(path)).toBe(false);
    lock?.release();
    lock?.release();
    expect(FileLock.isFree(path)).toBe(true);
    const again = FileLock.tryAcquire(path);
    expect(again).not.toBeNull();
    again?.release();
    expect(modes(dir)).toEqual({ kernels: "700", "kernels/k1": "600" });
    expect(openFiles(dir)).toBe(0);
  });

  test("a lock that was never made is free, and looking at it makes nothing", () => {
    const path = join(temporaryFolder(), "none");
    expect(FileLock.isFree(path)).toBe(true);
    expect(existsSync(path)).toBe(false);
  });

  test("a path that is not a file has no lock holder and cannot be locked", async () => {
    const path = join(temporaryFolder(), "pipe");
    expect(Bun.spawnSync(["mkfifo", path]).success).toBe(true);
    expect(FileLock.isFree(path)).toBe(true);
    expect(await codeOf(() => FileLock.tryAcquire(path))).toBe("INVALID");
  });

  test("a lock that is released with its file can be taken again", () => {
    const path = join(temporaryFolder(), "k");
    FileLock.tryAcquire(path)?.release({ remove: true });
    expect(existsSync(path)).toBe(false);
    const lock = FileLock.tryAcquire(path);
    expect(lock).not.toBeNull();
    lock?.release();
  });

  test("is free after kill -9 of its owner, even when a program the owner started lives on", async () => {
    const path = join(temporaryFolder(), "k");
    const owner = program("holdLock", path);
    const child = Number((await until(owner.stdout, "\n")).split(" ")[1]);
    try {
      expect(FileLock.isFree(path)).toBe(false);
      expect(FileLock.tryAcquire(path)).toBeNull();
      owner.kill("SIGKILL");
      await owner.exited;
      process.kill(child, 0); // Throws unless it lives.
      expect(FileLock.isFree(path)).toBe(true);
      const lock = FileLock.tryAcquire(path);
      expect(lock).not.toBeNull();
      lock?.release();
    } finally {
      process.kill(child, "SIGKILL");
    }
  });

  test("waits for its turn on the clock it is given, and gives up at the deadline", async () => {
    const path = join(temporaryFolder(), "k");
    const held = FileLock.tryAcquire(path);
    let now = 0;
    const pauses: number[] = [];
    const clock: LockClock = {
      monotonic: () => now,
      timer: (ms, f) => {
        pauses.push(ms);
        now += ms;
        queueMicrotask(f);
        return { cancel: () => undefined };
      },
    };
    expect(await codeOf(() => FileLock.acquire(path, 100, clock))).toBe("TIMEOUT");
    expect(now).toBeGreaterThanOrEqual(100);
    expect(Math.max(...pauses)).toBeLessThanOrEqual(20);

    const waiting = FileLock.acquire(path, 100, { ...clock, timer: clock.timer });
    held?.release();
    (await waiting).release();
    const now2 = FileLock.acquireNow(path, 0);
    expect(await codeOf(() => FileLock.acquireNow(path, 0))).toBe("TIMEOUT");
    now2.release();
  });

  test("a path that cannot be opened is an error, not a held lock", async () => {
    const dir = temporaryFolder();
    expect(await codeOf(() => FileLock.tryAcquire(dir))).toBe("INVALID");
    const file = join(dir, "file");
    FileLock.tryAcquire(file)?.release();
    expect(readFileSync(file, "utf8")).toBe("");
    expect(await codeOf(() => FileLock.tryAcquire(join(file, "below")))).toBe("INVALID");
  });
});
