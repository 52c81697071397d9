/** Reads files that a user or a project names: regular files only, at most a given size, never blocking on the open. */

import { closeSync, constants, fstatSync, openSync, readSync, type Stats, statSync } from "node:fs";
import { type FileHandle, open, stat } from "node:fs/promises";
import { SyscallError } from "../plugin/errors.ts";
import { errnoOf } from "./error-detail.ts";

/** Without O_NONBLOCK a FIFO would block the open; without O_NOCTTY a terminal could become ours. */
export const OPEN_REGULAR = constants.O_RDONLY | constants.O_NONBLOCK | constants.O_NOCTTY;

/** The size of one read when the file's size is unknown, as in /proc. */
const CHUNK = 64 * 1024;

interface RegularFile {
  handle: FileHandle;
  stat: Stats;
}

/**
 * The whole file. Fails with INVALID if it is not a regular file or has more than `most` bytes, and with the
 * system's own error (ENOENT, EACCES) if it can't be opened. The result is a part of `reuse`, if the file fits into that.
 */
export function readRegularSync(path: string, most: number, reuse?: Buffer): Buffer {
  // Opening a device can act on it: the type is checked before the open, and after it against a swap.
  requireRegular(path, statSync(path));
  const fd = openSync(path, OPEN_REGULAR);
  try {
    const { size } = requireRegular(path, fstatSync(fd));
    const file = new BoundedBuffer(path, size, most, reuse);
    while (file.add(readSync(fd, file.next(), { position: file.length })));
    return file.bytes();
  } finally {
    closeSync(fd);
  }
}

/** As `readRegularSync`, off the thread. */
export async function readRegular(path: string, most: number): Promise<Buffer> {
  const { handle, stat: found } = await openRegular(path);
  try {
    return await readOpened(path, handle, found.size, most);
  } finally {
    await handle.close();
  }
}

/** Opens it for reading; the caller closes it. Fails as `readRegularSync` does. */
export async function openRegular(path: string): Promise<RegularFile> {
  requireRegular(path, await stat(path));
  const handle = await open(path, OPEN_REGULAR);
  try {
    return { handle, stat: requireRegular(path, await handle.stat()) };
  } catch (thrown) {
    await handle.close();
    throw thrown;
  }
}

/** Reads an open file from its start, whatever the handle's position. */
export async function readOpened(
  path: string,
  handle: FileHandle,
  size: number,
  most: number,
): Promise<Buffer> {
  const file = new BoundedBuffer(path, size, most);
  for (;;) {
    const into = file.next();
    const { bytesRead } = await handle.read(into, 0, into.length, file.length);
    if (!file.add(bytesRead)) return file.bytes();
  }
}

/** Fails with INVALID for a folder, a FIFO, a socket or a device. */
function requireRegular(path: string, found: Stats): Stats {
  if (found.isFile()) return found;
  throw new SyscallError("INVALID", `${path}: expected a file, found ${kindOf(found)}.`);
}

export function kindOf(found: Stats): string {
  if (found.isDirectory()) return "a folder";
  if (found.isFIFO()) return "a FIFO";
  if (found.isSocket()) return "a socket";
  return "a device";
}

/** Collects the read bytes, up to the limit, also of a file that grows or whose size is unknown. */
class BoundedBuffer {
  readonly #path: string;
  readonly #most: number;
  #buffer: Buffer;
  length = 0;

  constructor(path: string, size: number, most: number, reuse?: Buffer) {
    this.#path = path;
    this.#most = most;
    this.#check(size);
    // One extra byte detects the end of the file without another allocation.
    this.#buffer = reuse && size < reuse.length ? reuse : Buffer.allocUnsafe((size || CHUNK) + 1);
  }

  next(): Buffer {
    if (this.length === this.#buffer.length) {
      const larger = Buffer.allocUnsafe(this.#buffer.length + Math.max(CHUNK, this.#buffer.length));
      this.#buffer.copy(larger);
      this.#buffer = larger;
    }
    return this.#buffer.subarray(this.length);
  }

  /** Returns false at the end of the file. */
  add(bytes: number): boolean {
    this.length += bytes;
    this.#check(this.length);
    return bytes > 0;
  }

  bytes(): Buffer {
    return this.#buffer.subarray(0, this.length);
  }

  #check(size: number): void {
    if (size <= this.#most) return;
    const message = `${this.#path}: expected at most ${this.#most / 1024 ** 2} MiB, found ${size} bytes.`;
    throw new SyscallError("INVALID", message);
  }
}

/** The result of a call of the file system; null where the system has refused it, such as a missing file. */
export async function unlessSystemError<T>(call: Promise<T>): Promise<T | null> {
  try {
    return await call;
  } catch (thrown) {
    if (errnoOf(thrown) === undefined) throw thrown;
    return null;
  }
}
