/** Reads, caches, digests and writes configuration files. */

import {
  accessSync,
  type BigIntStats,
  closeSync,
  constants,
  type Dirent,
  fsyncSync,
  mkdirSync,
  openSync,
  readdirSync,
  realpathSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { basename, dirname, join } from "node:path";
import { BoundedMap, lazy } from "../../lib/caches.ts";
import { errnoOf } from "../../lib/error-detail.ts";
import { readRegularSync } from "../../lib/regular-file.ts";
import { SyscallError } from "../../plugin/errors.ts";

/** Configuration is written by people: a larger file is a mistake. */
const MAX_BYTES = 1024 ** 2;
/** Limit for a script or program that is identified by its hash. */
const MAX_DIGESTED_BYTES = 64 * 1024 ** 2;
const MAX_CACHED = 512;
/** The digest of a larger file is made from its metadata. */
const DIGESTED_BYTES = BigInt(16 * 1024 ** 2);
/** A younger change is not cached: file systems keep times in steps of a few ms. */
const GRAIN_MS = 50;

/** Caches what was parsed from a file. A change shows in its times (ns), size or inode; an unchanged file costs one `stat`. */
export class FileCache<T> {
  readonly #entries = new BoundedMap<string, { stamp: string; made: T }>(MAX_CACHED);
  readonly #make: (text: string, file: string) => T;

  constructor(make: (text: string, file: string) => T) {
    this.#make = make;
  }

  /** null when there is no such file. Throws what `readText` throws, and what `make` throws. */
  get(file: string): T | null {
    const stat = statFile(file);
    if (!stat) {
      this.#entries.delete(file);
      return null;
    }
    const stamp = stampOf(stat);
    const cached = this.#entries.get(file);
    if (cached?.stamp === stamp) return cached.made;
    const text = readText(file);
    if (text === null) return null;
    const made = this.#make(text, file);
    if (stamp !== null) this.#entries.set(file, { stamp, made });
    return made;
  }
}

/** Fails with PERMISSION when its folder is not accessible. */
export function pathExists(path: string): boolean {
  return statFile(path) !== null;
}

/** null when there is no such file. Fails with PERMISSION or INVALID when it cannot be read. `most`: bytes. */
export function readText(file: string, most = MAX_BYTES): string | null {
  return statFile(file) && readBytes(file, most).toString();
}

/** The hash of a file's bytes, cached. null when there is no such regular file. */
export function digestFile(file: string): string | null {
  const stat = statFile(file);
  if (!stat?.isFile()) return null;
  const stamp = stampOf(stat);
  const cached = digests.get(file);
  if (cached?.stamp === stamp) return cached.digest;
  // Reading a large file whole would block the daemon's thread.
  const digest =
    stat.size > DIGESTED_BYTES
      ? digestText(stampText(stat))
      : digestText(readBytes(file, MAX_DIGESTED_BYTES, scratch()));
  if (stamp !== null) digests.set(file, { stamp, digest });
  return digest;
}

export function digestText(content: string | Uint8Array): string {
  return `sha256:${Bun.CryptoHasher.hash("sha256", content, "hex")}`;
}

/** Replaces the file atomically and syncs it, mode 0600. `isLocked`: no other process writes it, so a leftover is replaced. */
export function writeAtomic(file: string, text: string, { isLocked = false } = {}): void {
  const temporary = isLocked
    ? join(dirname(file), `~${basename(file)}.tmp`)
    : `${file}.${crypto.randomUUID()}.tmp`;
  try {
    mkdirSync(dirname(file), { recursive: true, mode: 0o700 });
    const fd = openSync(temporary, isLocked ? "w" : "wx", 0o600);
    try {
      writeFileSync(fd, text);
      fsyncSync(fd);
    } finally {
      closeSync(fd);
    }
    renameSync(temporary, file);
  } catch (cause) {
    rmSync(temporary, { force: true });
    throw fileError(cause, file, "write");
  }
}

/** The file that a link leads to: it is replaced, and the link stays. */
export function linkTarget(file: string): string {
  try {
    return realpathSync(file);
  } catch (error) {
    if (errnoOf(error) === "ENOENT") return file;
    throw error;
  }
}

/** The entries of a folder; none where there is no folder. */
export function entriesIn(dir: string, { recursive = false } = {}): Dirent[] {
  try {
    // An error of the runtime takes five times as long as this, and most of the folders that are looked for do not exist.
    if (statSync(dir, { throwIfNoEntry: false }) === undefined) return [];
    return readdirSync(dir, { withFileTypes: true, recursive });
  } catch (cause) {
    const code = errnoOf(cause);
    if (code === "ENOENT" || code === "ENOTDIR") return [];
    throw fileError(cause, dir, "list");
  }
}

/** The value of a JSON text; undefined for any other text. */
export function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined; // The caller names the file.
  }
}

/** A system error about a file as a SyscallError: the path, the system's code, and what to do. */
export function fileError(cause: unknown, file: string, verb: string): SyscallError {
  if (cause instanceof SyscallError) return cause;
  const system = errnoOf(cause);
  const what = `Cannot ${verb} ${file}`;
  if (system === "EROFS")
    return new SyscallError("PERMISSION", `${what}: its disk is read-only (EROFS).`, { cause });
  if (system === "EACCES" || system === "EPERM")
    return new SyscallError("PERMISSION", `${what} (${system}). Check its owner and mode.`, { cause });
  return new SyscallError("INTERNAL", `${what} (${system ?? "unknown reason"}).`, { cause });
}

/** Identifies a folder: another one at the same path has another identity. */
export function folderIdentity(dir: string): string {
  try {
    const { ino, birthtimeNs } = statSync(dir, { bigint: true });
    // An inode number alone would be reused by the next folder.
    return `${ino}:${birthtimeNs}`;
  } catch (error) {
    throw fileError(error, dir, "look at");
  }
}

/** Whether this user can write to the path, or create it. */
export function canWrite(path: string): boolean {
  for (let at = path; ; at = dirname(at)) {
    try {
      accessSync(at, constants.W_OK | constants.X_OK);
      return true;
    } catch (thrown) {
      if (errnoOf(thrown) !== "ENOENT" || at === dirname(at)) return false;
    }
  }
}

/** Whether another user owns the folder and keeps this user out of the folder inside it. */
export function isClosedByOwner(folder: string, inside: string, uid: number): boolean {
  try {
    if (statSync(folder).uid !== uid) accessSync(join(folder, inside), constants.X_OK);
    return false;
  } catch (thrown) {
    return errnoOf(thrown) === "EACCES";
  }
}

const digests = new BoundedMap<string, { stamp: string; digest: string }>(MAX_CACHED);

/** The files of all plugins are read at once: a buffer for each would be garbage at once. */
const scratch = lazy(() => Buffer.allocUnsafeSlow(64 * 1024));

function readBytes(file: string, most: number, reuse?: Buffer): Buffer {
  try {
    return readRegularSync(file, most, reuse);
  } catch (cause) {
    throw fileError(cause, file, "read");
  }
}

function statFile(file: string): BigIntStats | null {
  try {
    return statSync(file, { bigint: true, throwIfNoEntry: false }) ?? null;
  } catch (cause) {
    const code = errnoOf(cause);
    if (code === "ENOENT" || code === "ENOTDIR") return null;
    throw fileError(cause, file, "look at");
  }
}

/** null for a file that has just changed: a second change within the same clock tick would not show. */
function stampOf(stat: BigIntStats): string | null {
  if (Number(stat.ctimeMs) > Date.now() - GRAIN_MS) return null;
  return stampText(stat);
}

function stampText(stat: BigIntStats): string {
  return `${stat.mtimeNs}:${stat.ctimeNs}:${stat.size}:${stat.ino}:${stat.dev}`;
}
