import { dlopen, ptr, toArrayBuffer } from "bun:ffi";

/**
 * The few calls of the C library that Bun does not offer, on Linux. Elsewhere there is none of this: without
 * a subreaper there is nothing to reap, and pipes are Bun's own.
 */
interface Libc {
  /** prctl(2) with one number. 0 when it worked. */
  prctl(option: number, value: number): number;
  /** True when `pid` was a zombie of ours and is gone now. Never waits. */
  reap(pid: number): boolean;
  /** The soft and the hard limit of a process (0: this one), of a zombie too; null when the system does not say. */
  limit(resource: number, pid?: number): { soft: bigint; hard: bigint } | null;
  setLimit(resource: number, soft: bigint, hard: bigint, pid?: number): boolean;
  /** The session of a process (0: this one), of a zombie too; -1 when there is no such process. */
  session(pid: number): number;
  /** A nameless file in memory whose name /proc/<pid>/fd shows; closed with this process. False when there is none. */
  nameInMemory(name: string): boolean;
  /** An option of a socket (SOL_SOCKET) that is one number; null when the system does not give it. */
  socketOption(fd: number, option: number): number | null;
  /** Writes over this process's own copy of a variable's value, where the system shows it; false when there is none. */
  hideVariable(name: string): boolean;
  /** A pipe that programs started later do not inherit by themselves; null when no descriptor is left. */
  pipe(): { read: number; write: number } | null;
  /** Whether a read returns at once: with bytes, the end or an error. */
  readable(fd: number): boolean;
}

/** Opened at the first call, which costs a millisecond or two; null where it can't be had. */
export function libc(): Libc | null {
  opened ??= open();
  return opened.calls;
}

let opened: { calls: Libc | null } | undefined;

const WNOHANG = 1;
const O_CLOEXEC = 0o2000000;
const SOL_SOCKET = 1;
const POLLIN = 1;
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
  getsid: { args: ["i32"], returns: "i32" },
  // memfd_create(2) by its number: older C libraries do not name it.
  syscall: { args: ["i64", "ptr", "u64"], returns: "i64" },
  getsockopt: { args: ["i32", "i32", "i32", "ptr", "ptr"], returns: "i32" },
} as const;

function open(): { calls: Libc | null } {
  if (process.platform !== "linux") return { calls: null };
  const arch = process.arch === "arm64" ? "aarch64" : "x86_64";
  for (const name of ["libc.so.6", `libc.musl-${arch}.so.1`, "libc.so"]) {
    const calls = load(name);
    if (calls) return { calls };
  }
  return { calls: null };
}

function load(name: string): Libc | null {
  let symbols: ReturnType<typeof dlopen<typeof SYMBOLS>>["symbols"];
  try {
    symbols = dlopen(name, SYMBOLS).symbols;
  } catch {
    return null; // Not this C library's name: the next one is tried.
  }
  const limits = new BigUint64Array(2);
  const ends = new Int32Array(2);
  /** One struct pollfd: the descriptor, and the events to wait for with those that came. */
  const polled = new Int32Array(2);
  const option = new Int32Array(1);
  const optionBytes = new Uint32Array(1);
  return {
    prctl: (option, value) => symbols.prctl(option, value, 0, 0, 0),
    reap: (pid) => symbols.waitpid(pid, null, WNOHANG) === pid,
    limit(resource, pid = 0) {
      if (symbols.prlimit(pid, resource, null, ptr(limits)) !== 0) return null;
      return { soft: limits[0] ?? 0n, hard: limits[1] ?? 0n };
    },
    setLimit(resource, soft, hard, pid = 0) {
      limits[0] = soft;
      limits[1] = hard;
      return symbols.prlimit(pid, resource, ptr(limits), null) === 0;
    },
    session: (pid) => symbols.getsid(pid),
    nameInMemory(name) {
      const text = Buffer.from(`${name}\0`);
      return Number(symbols.syscall(MEMFD_CREATE, ptr(text), MFD_CLOEXEC)) >= 0;
    },
    socketOption(fd, name) {
      optionBytes[0] = option.byteLength;
      if (symbols.getsockopt(fd, SOL_SOCKET, name, ptr(option), ptr(optionBytes)) !== 0) return null;
      return option[0] ?? null;
    },
    hideVariable(name) {
      const at = symbols.getenv(ptr(Buffer.from(`${name}\0`)));
      if (at === null) return false;
      const length = Number(symbols.strlen(at));
      if (length > 0) new Uint8Array(toArrayBuffer(at, 0, length)).fill(HIDDEN);
      return true;
    },
    pipe() {
      if (symbols.pipe2(ptr(ends), O_CLOEXEC) !== 0) return null;
      return { read: ends[0] ?? -1, write: ends[1] ?? -1 };
    },
    readable(fd) {
      polled[0] = fd;
      polled[1] = POLLIN;
      return symbols.poll(ptr(polled), 1n, 0) === 1;
    },
  };
}
