/** The file operations of the store, and their errors. */

import nodeFs from "node:fs";
import { errnoOf, messageOf } from "../../lib/error-detail.ts";
import { type Code, SyscallError } from "../../plugin/index.ts";
import { hasWriters, swapFiles } from "./swap-files.ts";

const FILE_MODE = 0o600;
const DIR_MODE = 0o700;

/**
 * `append` and `update` make the file when it is missing, `create` refuses an existing one, `replace` removes it first.
 * None of them follows a link in the last part of the path; `folder`, to sync a folder, does.
 */
export type OpenMode = "read" | "append" | "update" | "create" | "replace" | "folder";

/**
 * The file operations of the store. A test replaces them to simulate a full disk or a short write. Errors are
 * system errors with a `code`; `ioError` converts them.
 */
export interface FsPort {
  open(path: string, mode: OpenMode): number;
  close(fd: number): void;
  size(fd: number): number;
  /** At the file's position, at its end in append mode. Returns the bytes written, which may be fewer. */
  write(fd: number, data: Uint8Array): number;
  writeAsync(fd: number, data: Uint8Array): Promise<number>;
  /** Returns the bytes read; 0 at the end. */
  read(fd: number, into: Uint8Array, position: number): number;
  readAsync(fd: number, into: Uint8Array, position: number): Promise<number>;
  truncate(fd: number, length: number): void;
  fdatasync(fd: number): Promise<void>;
  fdatasyncNow(fd: number): void;
  fsync(fd: number): Promise<void>;
  /** Makes a folder and its missing parents. Returns true if this call made the folder itself. */
  mkdir(dir: string): boolean;
  rename(from: string, to: string): void;
  link(from: string, to: string): void;
  /** Swaps two names in one step. */
  swap(a: string, b: string): "swapped" | "missing" | "unsupported";
  /** Whether any program has the file open for writing; null when it is not known. */
  hasWriters(path: string): boolean | null;
  remove(path: string): void;
  list(dir: string): Promise<string[]>;
  /** Returns null when the path is missing or not accessible; `open` reports why. */
  stat(path: string): FileFacts | null;
}

/** Facts that show a change: a replaced file has another `ino`, an edited one another time. */
export interface FileFacts {
  size: number;
  mtimeMs: number;
  ino: number;
  isFolder: boolean;
  /** The path is a symbolic link, which was not followed. */
  isLink: boolean;
  /** Number of hard links. */
  names: number;
}

export const realFs: FsPort = {
  open: (path, mode) => (mode === "replace" ? openAnew(path) : openPlain(path, FLAGS[mode])),
  close: (fd) => nodeFs.closeSync(fd),
  size: (fd) => nodeFs.fstatSync(fd).size,
  write: (fd, data) => nodeFs.writeSync(fd, data),
  writeAsync: (fd, data) =>
    new Promise((resolve, reject) =>
      nodeFs.write(fd, data, (error, n) => (error ? reject(error) : resolve(n))),
    ),
  read: (fd, into, position) => nodeFs.readSync(fd, into, 0, into.length, position),
  readAsync: (fd, into, position) =>
    new Promise((resolve, reject) =>
      nodeFs.read(fd, into, 0, into.length, position, (error, n) => (error ? reject(error) : resolve(n))),
    ),
  truncate: (fd, length) => nodeFs.ftruncateSync(fd, length),
  fdatasync: (fd) =>
    new Promise((resolve, reject) => nodeFs.fdatasync(fd, (error) => (error ? reject(error) : resolve()))),
  fdatasyncNow: (fd) => nodeFs.fdatasyncSync(fd),
  fsync: (fd) =>
    new Promise((resolve, reject) => nodeFs.fsync(fd, (error) => (error ? reject(error) : resolve()))),
  mkdir: (dir) => nodeFs.mkdirSync(dir, { recursive: true, mode: DIR_MODE }) !== undefined,
  rename: (from, to) => nodeFs.renameSync(from, to),
  link: (from, to) => nodeFs.linkSync(from, to),
  swap: swapFiles,
  hasWriters,
  remove: (path) => nodeFs.unlinkSync(path),
  list: (dir) => nodeFs.promises.readdir(dir),
  stat: (path) => {
    try {
      const found = nodeFs.lstatSync(path, { throwIfNoEntry: false });
      return found ? factsOf(found) : null;
    } catch {
      return null;
    }
  },
};

/**
 * Opens a regular file or a folder, and nothing else. An agent may put a pipe in place of a record, and opening a pipe
 * can block the whole thread. `O_NONBLOCK` has no effect on files.
 */
export function openPlain(path: string, flags: number): number {
  const fd = nodeFs.openSync(path, flags | O_NONBLOCK, FILE_MODE);
  const found = nodeFs.fstatSync(fd);
  if (found.isFile() || found.isDirectory()) return fd;
  nodeFs.closeSync(fd);
  throw Object.assign(new Error(`${path} is neither a file nor a folder`), { code: NO_PLAIN_FILE });
}

/** The BSD error code for a wrong file type; Linux has none. */
export const NO_PLAIN_FILE = "EFTYPE";

/** Removes the file and creates a new one: truncating it would also change its hard links. */
function openAnew(path: string): number {
  try {
    return openPlain(path, FLAGS.create);
  } catch (error) {
    if (errnoOf(error) !== "EEXIST") throw error;
  }
  nodeFs.unlinkSync(path);
  return openPlain(path, FLAGS.create);
}

function factsOf(found: nodeFs.Stats): FileFacts {
  const { size, mtimeMs, ino, nlink } = found;
  return { size, mtimeMs, ino, names: nlink, isFolder: found.isDirectory(), isLink: found.isSymbolicLink() };
}

const { O_RDONLY, O_WRONLY, O_RDWR, O_APPEND, O_CREAT, O_EXCL, O_DIRECTORY, O_NOFOLLOW, O_NONBLOCK } =
  nodeFs.constants;
const FLAGS: Record<Exclude<OpenMode, "replace">, number> = {
  read: O_RDONLY | O_NOFOLLOW,
  append: O_RDWR | O_APPEND | O_CREAT | O_NOFOLLOW,
  update: O_RDWR | O_CREAT | O_NOFOLLOW,
  create: O_WRONLY | O_CREAT | O_EXCL,
  folder: O_RDONLY | O_DIRECTORY,
};

export function withFile<T>(fs: FsPort, path: string, mode: OpenMode, use: (fd: number) => T): T {
  const fd = fs.open(path, mode);
  try {
    return use(fd);
  } finally {
    fs.close(fd);
  }
}

/** As `withFile`, for work off the main thread. */
export async function withFileAsync<T>(
  fs: FsPort,
  path: string,
  mode: OpenMode,
  use: (fd: number) => Promise<T>,
): Promise<T> {
  const fd = fs.open(path, mode);
  try {
    return await use(fd);
  } finally {
    fs.close(fd);
  }
}

/** Writes a file under a temporary name, and renames it: readers see it complete or not at all. */
export async function placeFile(
  fs: FsPort,
  temporary: string,
  path: string,
  data: Uint8Array,
): Promise<void> {
  try {
    await withFileAsync(fs, temporary, "replace", (fd) => writeAllAsync(fs, fd, data));
    fs.rename(temporary, path);
  } catch (error) {
    removeLeftover(fs, temporary);
    throw error;
  }
}

/** Makes a hard link. Returns false where the file system has none, or no more of them for this file. */
export function linked(fs: FsPort, from: string, to: string): boolean {
  try {
    fs.link(from, to);
    return true;
  } catch (error) {
    if (NO_LINKS.has(errnoOf(error) ?? "")) return false;
    throw error;
  }
}

const NO_LINKS: ReadonlySet<string> = new Set(["EPERM", "EMLINK", "EOPNOTSUPP", "ENOSYS", "ENOTSUP"]);

/** The names in a folder; none where there is no folder. `doing`: for the message, such as "list the runs". */
export async function namesIn(fs: FsPort, dir: string, doing: string): Promise<string[]> {
  try {
    return await fs.list(dir);
  } catch (error) {
    if (errnoOf(error) === "ENOENT" || errnoOf(error) === "ENOTDIR") return [];
    throw ioError(error, doing, dir);
  }
}

/** Reads an open file from its beginning: `length` bytes, or fewer where it ends before. */
export async function readUpTo(fs: FsPort, fd: number, length: number): Promise<Uint8Array> {
  const bytes = new Uint8Array(length);
  for (let at = 0; at < length; ) {
    const got = await fs.readAsync(fd, bytes.subarray(at), at);
    if (got === 0) return bytes.subarray(0, at);
    at += got;
  }
  return bytes;
}

/** Writes all data or throws. Continues after a short write. */
export function writeAll(fs: FsPort, fd: number, data: Uint8Array): void {
  for (let rest = data; rest.length > 0; ) rest = rest.subarray(progress(fs.write(fd, rest)));
}

/** Like `writeAll`, off the main thread, for large data. */
export async function writeAllAsync(fs: FsPort, fd: number, data: Uint8Array): Promise<void> {
  for (let rest = data; rest.length > 0; ) rest = rest.subarray(progress(await fs.writeAsync(fd, rest)));
}

function progress(written: number): number {
  if (written > 0) return written;
  throw Object.assign(new Error("a write took no bytes"), { code: "ENOSPC" });
}

/** Removes an unneeded file. Ignores system errors: a leftover only uses space. */
export function removeLeftover(fs: FsPort, path: string): void {
  try {
    fs.remove(path);
  } catch (error) {
    if (errnoOf(error) === undefined) throw error;
  }
}

/** Converts the error of a file operation to a SyscallError. `doing`: for example "append to steps.jsonl of run X". */
export function ioError(error: unknown, doing: string, path: string): SyscallError {
  if (error instanceof SyscallError) return error;
  const system = errnoOf(error);
  const known = system === undefined ? undefined : CAUSES[system];
  const [code, advice] = known ?? ["UNAVAILABLE", messageOf(error)];
  return new SyscallError(code, `Cannot ${doing} (${path}): ${advice}${system ? ` [${system}]` : ""}`, {
    cause: error,
    retryable: false,
  });
}

const STRANGER = "expected a file, found a pipe, a socket or a device. Remove it.";

/** Both variables are named, because this file does not know which folder failed. */
const DATA_VARIABLES = "RNIX_DATA_DIR (records of runs) or XDG_DATA_HOME (your data)";
const DENIED = `permission denied. Make it writable for you, or set ${DATA_VARIABLES} to a folder that is.`;

const CAUSES: Record<string, [Code, string]> = {
  ENOSPC: ["EXHAUSTED", "the disk is full. Free some space: rnix gc removes old runs."],
  EDQUOT: ["EXHAUSTED", "your quota on this disk is used up. Free some space: rnix gc removes old runs."],
  EFBIG: ["EXHAUSTED", "the file would be larger than the file system allows."],
  EMFILE: ["EXHAUSTED", "too many files are open. Raise the limit (`ulimit -n`) or run fewer processes."],
  ENFILE: ["EXHAUSTED", "too many files are open on this machine."],
  EROFS: ["UNAVAILABLE", `the disk is read-only. Set ${DATA_VARIABLES} to a folder that can be written.`],
  EACCES: ["UNAVAILABLE", DENIED],
  EPERM: ["UNAVAILABLE", DENIED],
  EIO: ["UNAVAILABLE", "the disk reports a fault."],
  ENOENT: [
    "UNAVAILABLE",
    "the folder is gone. git clean -x removes it, for example; a program in a sandbox can not.",
  ],
  EEXIST: ["INVALID", "a file of this name already exists."],
  ENOTDIR: ["INVALID", "a part of this path is a file where a folder is expected."],
  [NO_PLAIN_FILE]: ["INVALID", STRANGER],
  // A pipe without a reader, or a socket.
  ENXIO: ["INVALID", STRANGER],
  ELOOP: ["INVALID", "expected a file, found a link. Remove it."],
  EISDIR: ["INVALID", "this is a folder where a file is expected."],
};
