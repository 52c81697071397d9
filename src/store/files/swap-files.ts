/** Calls of the system for files that programs without our lock write too: swap two names, find open writers. */

import { ptr } from "bun:ffi";
import nodeFs from "node:fs";
import { errnoAt, openLibrary } from "../../lib/c-library.ts";

/**
 * Swaps two files in one step, so that what was replaced is still there to be looked at. "missing": one of them does not
 * exist. "unsupported": this system or file system can't.
 */
export function swapFiles(a: string, b: string): "swapped" | "missing" | "unsupported" {
  const calls = system();
  if (!calls) return "unsupported";
  const error = calls.swap(a, b);
  if (error === 0) return "swapped";
  return error === ENOENT ? "missing" : "unsupported";
}

/** Whether any program has the file open for writing; null where the system can't tell. */
export function hasWriters(path: string): boolean | null {
  const calls = system();
  if (!calls?.lease) return null;
  const fd = nodeFs.openSync(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
  try {
    return calls.lease(fd);
  } finally {
    nodeFs.closeSync(fd);
  }
}

interface Calls {
  /** Returns the error number; 0 on success. */
  swap(a: string, b: string): number;
  lease?(fd: number): boolean | null;
}

const { O_RDONLY, O_NOFOLLOW, O_NONBLOCK } = nodeFs.constants;
const ENOENT = 2;
const EAGAIN = 11;
const AT_FDCWD = -100;
const RENAME_EXCHANGE = 2;
const RENAMEAT2 = process.arch === "arm64" ? 276 : 316;
const RENAME_SWAP = 2;
const F_SETSIG = 10;
const F_SETLEASE = 1024;
const F_RDLCK = 0;
const F_UNLCK = 2;
/** A signal without effect: by default the system ends a process whose lease is broken. */
const SIGURG = 23;

let opened: { calls: Calls | null } | undefined;

function system(): Calls | null {
  opened ??= { calls: open() };
  return opened.calls;
}

function open(): Calls | null {
  // Where the library lacks a function, files are replaced without a swap.
  if (process.platform === "darwin") return openDarwin();
  return process.platform === "linux" ? openLinux() : null;
}

function openLinux(): Calls | null {
  const symbols = openLibrary({
    // renameat2(2) by its number: musl does not name it.
    syscall: { args: ["i64", "i64", "ptr", "i64", "ptr", "u64"], returns: "i64" },
    fcntl: { args: ["i32", "i32", "i32"], returns: "i32" },
    __errno_location: { args: [], returns: "ptr" },
  });
  if (!symbols) return null;
  const errno = (): number => errnoAt(symbols.__errno_location());
  return {
    swap(a, b) {
      const [from, to] = [cString(a), cString(b)];
      const done = symbols.syscall(RENAMEAT2, AT_FDCWD, ptr(from), AT_FDCWD, ptr(to), RENAME_EXCHANGE);
      return Number(done) === 0 ? 0 : errno();
    },
    // The system gives a read lease only while no program has the file open for writing.
    lease(fd) {
      if (symbols.fcntl(fd, F_SETSIG, SIGURG) !== 0) return null;
      if (symbols.fcntl(fd, F_SETLEASE, F_RDLCK) !== 0) return errno() === EAGAIN ? true : null;
      symbols.fcntl(fd, F_SETLEASE, F_UNLCK);
      return false;
    },
  };
}

function openDarwin(): Calls | null {
  const symbols = openLibrary({
    renamex_np: { args: ["ptr", "ptr", "u32"], returns: "i32" },
    __error: { args: [], returns: "ptr" },
  });
  if (!symbols) return null;
  return {
    swap(a, b) {
      const [from, to] = [cString(a), cString(b)];
      return symbols.renamex_np(ptr(from), ptr(to), RENAME_SWAP) === 0 ? 0 : errnoAt(symbols.__error());
    },
  };
}

function cString(text: string): Buffer {
  return Buffer.from(`${text}\0`);
}
