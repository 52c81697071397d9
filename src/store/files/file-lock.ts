/** An exclusive lock on a file. */

import nodeFs from "node:fs";
import { dirname } from "node:path";
import { C_LIBRARIES, errnoAt, openLibrary } from "../../lib/c-library.ts";
import type { Clock } from "../../lib/clock.ts";
import { errnoOf } from "../../lib/error-detail.ts";
import { SyscallError } from "../../plugin/index.ts";
import { makeFolder } from "./document.ts";
import { ioError, NO_PLAIN_FILE, openPlain } from "./fs-port.ts";

export type LockClock = Pick<Clock, "monotonic" | "timer">;

/** Unlike those of `realClock`, its timers keep the program running: a caller waits for the lock. */
export const systemLockClock: LockClock = {
  monotonic: () => performance.now(),
  timer: (ms, f) => {
    const timer = setTimeout(f, ms);
    return { cancel: () => clearTimeout(timer) };
  },
};

/**
 * An exclusive lock on a file, held by an open descriptor (flock): the system frees it when the process
 * ends, however it ends. Two locks on one file exclude each other within one process too. Programs started
 * meanwhile do not inherit it.
 */
export class FileLock {
  readonly path: string;
  #fd: number | undefined;

  private constructor(path: string, fd: number) {
    this.path = path;
    this.#fd = fd;
  }

  /** Takes the lock; null when another owner holds it. Makes the file and its folder if missing. */
  static tryAcquire(path: string): FileLock | null {
    // `isFree` of another process holds a lock for microseconds: that must not count as an owner.
    for (let attempt = 0; attempt < 3; attempt++) {
      if (attempt > 0) Bun.sleepSync(1);
      const lock = FileLock.#tryOnce(path);
      if (lock) return lock;
    }
    return null;
  }

  /** Waits for the lock. Fails with TIMEOUT when it is not free within `deadlineMs`. */
  static async acquire(
    path: string,
    deadlineMs: number,
    clock: LockClock = systemLockClock,
  ): Promise<FileLock> {
    const deadline = clock.monotonic() + deadlineMs;
    for (let pause = 1; ; pause = Math.min(pause * 2, MAX_PAUSE_MS)) {
      const lock = FileLock.#tryOnce(path);
      if (lock) return lock;
      if (clock.monotonic() >= deadline) throw lockTimeout(path, deadlineMs);
      await new Promise<void>((resolve) => clock.timer(pause, resolve));
    }
  }

  /** As `acquire`, blocking the thread: only for locks that are held for a moment. */
  static acquireNow(path: string, deadlineMs: number): FileLock {
    const deadline = performance.now() + deadlineMs;
    for (;;) {
      const lock = FileLock.#tryOnce(path);
      if (lock) return lock;
      if (performance.now() >= deadline) throw lockTimeout(path, deadlineMs);
      Bun.sleepSync(1);
    }
  }

  /** Returns true when the lock is free, or its path is missing or not a regular file. Creates no file. */
  static isFree(path: string): boolean {
    let fd: number;
    try {
      fd = openPlain(path, nodeFs.constants.O_RDONLY);
    } catch (error) {
      // A missing file, or a path that is no regular file, has no lock.
      if (errnoOf(error) === "ENOENT" || errnoOf(error) === NO_PLAIN_FILE) return true;
      throw ioError(error, "look at the lock", path);
    }
    try {
      // A shared lock, so that concurrent checks do not block each other.
      return flock(fd, LOCK_SH | LOCK_NB, path);
    } finally {
      nodeFs.closeSync(fd);
    }
  }

  write(text: string): void {
    if (this.#fd === undefined) return;
    nodeFs.ftruncateSync(this.#fd, 0);
    nodeFs.writeSync(this.#fd, text, 0);
  }

  /** Frees the lock. Safe to call again. `remove` also removes its file. */
  release(o: { remove?: boolean } = {}): void {
    if (this.#fd === undefined) return;
    const fd = this.#fd;
    this.#fd = undefined;
    try {
      if (o.remove) nodeFs.rmSync(this.path, { force: true });
    } finally {
      nodeFs.closeSync(fd);
    }
  }

  static #tryOnce(path: string): FileLock | null {
    // The file may be removed by its last owner between our open and our lock; then the lock has no effect.
    for (let attempt = 0; attempt < 10; attempt++) {
      const fd = openLockFile(path);
      let held = false;
      try {
        if (!flock(fd, LOCK_EX | LOCK_NB, path)) return null;
        held = isStillAt(fd, path);
        if (held) return new FileLock(path, fd);
      } finally {
        if (!held) nodeFs.closeSync(fd);
      }
    }
    return null;
  }
}

const LOCK_SH = 1;
const LOCK_EX = 2;
const LOCK_NB = 4;
const MAX_PAUSE_MS = 20;
const DARWIN = process.platform === "darwin";
const EINTR = 4;
const EWOULDBLOCK = DARWIN ? 35 : 11;

function openLockFile(path: string): number {
  const flags = nodeFs.constants.O_RDWR | nodeFs.constants.O_CREAT | nodeFs.constants.O_NOFOLLOW;
  try {
    return openPlain(path, flags);
  } catch (error) {
    if (errnoOf(error) !== "ENOENT") throw ioError(error, "open the lock", path);
  }
  makeFolder(dirname(path));
  try {
    return openPlain(path, flags);
  } catch (error) {
    throw ioError(error, "open the lock", path);
  }
}

function isStillAt(fd: number, path: string): boolean {
  const there = nodeFs.statSync(path, { throwIfNoEntry: false });
  const ours = nodeFs.fstatSync(fd);
  return there !== undefined && there.ino === ours.ino && there.dev === ours.dev;
}

/** Returns false when another owner holds the lock. */
function flock(fd: number, operation: number, path: string): boolean {
  libc ??= openLibc();
  for (let attempt = 0; attempt < 100; attempt++) {
    if (libc.flock(fd, operation) === 0) return true;
    const error = libc.errno();
    if (error === EWOULDBLOCK) return false;
    if (error !== EINTR) {
      const message = `Cannot lock ${path}: the file system returned error ${error}. Set RNIX_DATA_DIR (records of runs) or XDG_DATA_HOME (your data) to a folder on a disk that supports locks.`;
      throw new SyscallError("UNAVAILABLE", message);
    }
  }
  return false;
}

function lockTimeout(path: string, deadlineMs: number): SyscallError {
  const message = `Waited ${deadlineMs} ms for the lock ${path}, which another process holds. Try again, or end that process.`;
  return new SyscallError("TIMEOUT", message);
}

interface Libc {
  flock(fd: number, operation: number): number;
  errno(): number;
}

let libc: Libc | undefined;

function openLibc(): Libc {
  const flock = { args: ["i32", "i32"], returns: "i32" } as const;
  const errno = { args: [], returns: "ptr" } as const;
  if (DARWIN) {
    const symbols = openLibrary({ flock, __error: errno });
    if (symbols) return { flock: symbols.flock, errno: () => errnoAt(symbols.__error()) };
  } else {
    const symbols = openLibrary({ flock, __errno_location: errno });
    if (symbols) return { flock: symbols.flock, errno: () => errnoAt(symbols.__errno_location()) };
  }
  const message = `No C library found to lock files with; tried ${C_LIBRARIES.join(", ")}.`;
  throw new SyscallError("UNAVAILABLE", message);
}
