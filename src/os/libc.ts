/** Calls of the C library that Bun does not offer. */

import { ptr, toArrayBuffer } from "bun:ffi";
import { openLibrary } from "../lib/c-library.ts";

/**
 * Opens the library at the first call, in about 2 ms; null where it is not available. Linux only: other systems have no
 * subreaper, so there is nothing to reap, and pipes are Bun's own.
 */
export function libc(): ReturnType<typeof open> {
  opened ??= { calls: open() };
  return opened.calls;
}

let opened: { calls: ReturnType<typeof open> } | undefined;

const WNOHANG = 1;
const O_CLOEXEC = 0o2000000;
const SOL_SOCKET = 1;
const POLLIN = 1;
const NS_GET_PARENT = 0xb702n;
const KEEP_SIZE = 1;
const PUNCH_HOLE = 2;
const MEMFD_CREATE = process.arch === "arm64" ? 279 : 319;
const MFD_CLOEXEC = 1;
const HIDDEN = "*".charCodeAt(0);

const SYMBOLS = {
  prctl: { args: ["i32", "u64", "u64", "u64", "u64"], returns: "i32" },
  waitpid: { args: ["i32", "ptr", "i32"], returns: "i32" },
  prlimit: { args: ["i32", "i32", "ptr", "ptr"], returns: "i32" },
  getenv: { args: ["ptr"], returns: "ptr" },
  strlen: { args: ["ptr"], returns: "u64" },
  poll: { args: ["ptr", "u64", "i32"], returns: "i32" },
  pipe2: { args: ["ptr", "i32"], returns: "i32" },
  ioctl: { args: ["i32", "u64"], returns: "i32" },
  getsid: { args: ["i32"], returns: "i32" },
  // memfd_create(2) by its number: older C libraries do not name it.
  syscall: { args: ["i64", "ptr", "u64"], returns: "i64" },
  inotify_init1: { args: ["i32"], returns: "i32" },
  inotify_add_watch: { args: ["i32", "ptr", "u32"], returns: "i32" },
  fallocate: { args: ["i32", "i32", "i64", "i64"], returns: "i32" },
  getsockopt: { args: ["i32", "i32", "i32", "ptr", "ptr"], returns: "i32" },
} as const;

function open() {
  const symbols = process.platform === "linux" ? openLibrary(SYMBOLS) : null;
  if (!symbols) return null;
  const limits = new BigUint64Array(2);
  const ends = new Int32Array(2);
  /** A struct pollfd: the descriptor, then the requested and the returned events. */
  const polled = new Int32Array(2);
  const option = new Int32Array(1);
  const optionBytes = new Uint32Array(1);
  return {
    /** prctl(2) with one number. Returns 0 on success. */
    prctl: (option: number, value: number): number => symbols.prctl(option, value, 0, 0, 0),
    /** Reaps `pid`; returns true when it was a zombie child. Never waits. */
    reap: (pid: number): boolean => symbols.waitpid(pid, null, WNOHANG) === pid,
    /** Returns the soft and hard limit of a process or zombie (0: this one); null when they can't be read. */
    limit(resource: number, pid = 0): { soft: bigint; hard: bigint } | null {
      if (symbols.prlimit(pid, resource, null, ptr(limits)) !== 0) return null;
      return { soft: limits[0] ?? 0n, hard: limits[1] ?? 0n };
    },
    setLimit(resource: number, soft: bigint, hard: bigint, pid = 0): boolean {
      limits[0] = soft;
      limits[1] = hard;
      return symbols.prlimit(pid, resource, ptr(limits), null) === 0;
    },
    /** Opens the parent of an open user namespace; -1 on failure. */
    parentNamespace: (fd: number): number => symbols.ioctl(fd, NS_GET_PARENT),
    /** Returns the session of a process or zombie (0: this one); -1 when there is no such process. */
    session: (pid: number): number => symbols.getsid(pid),
    /** Opens an anonymous file in memory that /proc/<pid>/fd lists by name, until this process ends. False on failure. */
    nameInMemory(name: string): boolean {
      const text = Buffer.from(`${name}\0`);
      return Number(symbols.syscall(MEMFD_CREATE, ptr(text), MFD_CLOEXEC)) >= 0;
    },
    /** Returns a numeric socket option (SOL_SOCKET); null when the system does not support it. */
    socketOption(fd: number, name: number): number | null {
      optionBytes[0] = option.byteLength;
      if (symbols.getsockopt(fd, SOL_SOCKET, name, ptr(option), ptr(optionBytes)) !== 0) return null;
      return option[0] ?? null;
    },
    /** Overwrites a variable's value in this process's visible environment; false when there is none. */
    hideVariable(name: string): boolean {
      const at = symbols.getenv(ptr(Buffer.from(`${name}\0`)));
      if (at === null) return false;
      const length = Number(symbols.strlen(at));
      if (length > 0) new Uint8Array(toArrayBuffer(at, 0, length)).fill(HIDDEN);
      return true;
    },
    /** Makes a pipe that later programs do not inherit; null when no descriptor is left. */
    pipe(): { read: number; write: number } | null {
      if (symbols.pipe2(ptr(ends), O_CLOEXEC) !== 0) return null;
      return { read: ends[0] ?? -1, write: ends[1] ?? -1 };
    },
    /** Returns true when a read would return at once, with bytes, the end or an error. */
    readable(fd: number): boolean {
      polled[0] = fd;
      polled[1] = POLLIN;
      return symbols.poll(ptr(polled), 1n, 0) === 1;
    },
    /** inotify_init1(2). Returns a descriptor; -1 on failure. */
    watchFiles: (flags: number): number => symbols.inotify_init1(flags),
    /** inotify_add_watch(2). `path` without its final zero byte. Returns a watch; -1 on failure. */
    watchFolder: (fd: number, path: Uint8Array, mask: number): number =>
      symbols.inotify_add_watch(fd, ptr(Buffer.concat([path, Buffer.alloc(1)])), mask),
    /** Gives the blocks of the first bytes of a file back, without moving what follows; false when not supported. */
    punchHole: (fd: number, bytes: number): boolean =>
      symbols.fallocate(fd, PUNCH_HOLE | KEEP_SIZE, 0n, BigInt(bytes)) === 0,
  };
}

/** RLIMIT_NOFILE on Linux. */
const OPEN_FILES = 7;
/** The default where the limit can't be read: the limit of macOS. */
const USUAL = 10_240;

/** Returns how many files and sockets this process may open. The runtime has raised the soft limit to the hard limit. */
export function descriptorLimit(): number {
  const limit = libc()?.limit(OPEN_FILES);
  return limit ? Number(limit.soft) : USUAL;
}

/**
 * Hides values in `/proc/<pid>/environ` of this process, which every program of the same user can read. `process.env`
 * still has them: Bun has copied them. Linux only.
 */
export function scrubEnviron(names: Iterable<string>): void {
  const calls = libc();
  if (calls) for (const name of names) calls.hideVariable(name);
}
