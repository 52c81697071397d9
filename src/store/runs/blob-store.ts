/** The store of large results beside the records of one run. */

import { basename, extname, join } from "node:path";
import { errnoOf } from "../../lib/error-detail.ts";
import { type Data, SyscallError } from "../../plugin/index.ts";
import { RESULT_FILE } from "../../run/blob-file.ts";
import { isLink } from "../files/data-dir.ts";
import { makeFolder, syncFile } from "../files/document.ts";
import { type FsPort, ioError, placeFile, readUpTo, realFs, withFileAsync } from "../files/fs-port.ts";

/** The folder below a run's folder for content that is too large for its record. Each content is stored once, under its hash. */
export const RESULTS = "results";

const DEFAULT_RESULT_BYTES = 256 * 1024 * 1024;

const CHUNK_BYTES = 1024 * 1024;
const MAX_EXTENSION = 10;

/** A record's reference to a result that is stored beside it. */
export interface BlobRef {
  /** Relative to the run's folder. */
  file: string;
  /** Hash of the content, in hex. The file is named after it. */
  sha256: string;
  bytes: number;
}

/** Stores content that is too large for the records of one run. Equal content is one file, and a file never changes. */
export class BlobStore {
  readonly #dir: string;
  readonly #uuid: string;
  readonly #fs: FsPort;
  readonly #maxBytes: number;
  /** Writes by file name, so that equal content is written once. */
  readonly #written = new Map<string, Promise<void>>();
  /** Files that are not durable yet. */
  #fresh = new Set<string>();
  #bytes: number | undefined;
  #temporaries = 0;

  constructor(o: { dir: string; uuid: string; fs?: FsPort; maxBytes?: number }) {
    this.#dir = o.dir;
    this.#uuid = o.uuid;
    this.#fs = o.fs ?? realFs;
    this.#maxBytes = o.maxBytes ?? DEFAULT_RESULT_BYTES;
  }

  /**
   * Stores the data; the file takes its extension from `name`. The file survives a kill, and after `sync` a power
   * loss. Fails with EXHAUSTED when the run's limit is reached or the disk is full.
   */
  async store(name: string, data: Data): Promise<BlobRef & { path: string }> {
    const bytes = typeof data === "string" ? Buffer.from(data) : data;
    const sha256 = await hashOf(bytes);
    const file = `${RESULTS}/${sha256}${safeExtension(name)}`;
    const path = join(this.#dir, file);
    let written = this.#written.get(file);
    if (written === undefined) {
      written = this.#write(path, bytes);
      this.#written.set(file, written);
      // The next caller with the same content tries again.
      written.catch(() => this.#written.delete(file));
    }
    await written;
    return { file, sha256, bytes: bytes.length, path };
  }

  /** Makes everything stored so far durable. */
  async sync(): Promise<void> {
    if (this.#fresh.size === 0) return;
    const fresh = this.#fresh;
    this.#fresh = new Set();
    const folders = [join(this.#dir, RESULTS), this.#dir];
    for (const path of [...fresh, ...folders]) await syncFile(path, this.#fs);
  }

  async #write(path: string, bytes: Uint8Array): Promise<void> {
    const fs = this.#fs;
    const folder = join(this.#dir, RESULTS);
    if (fs.stat(folder)?.isLink) throw isLink(folder);
    makeFolder(folder, fs);
    this.#bytes ??= await bytesBelow(fs, folder);
    if (this.#bytes + bytes.length > this.#maxBytes) throw this.#full(bytes.length);
    this.#bytes += bytes.length;
    // Write under a temporary name: a file named by its hash is complete, and one damaged by a power loss is replaced.
    const temporary = join(folder, `~${++this.#temporaries}.tmp`);
    try {
      await placeFile(fs, temporary, path, bytes);
    } catch (error) {
      this.#bytes -= bytes.length;
      throw ioError(error, `keep a result of run ${this.#uuid}`, path);
    }
    this.#fresh.add(path);
  }

  #full(bytes: number): SyscallError {
    const message = `A result of ${bytes} bytes was not stored: run ${this.#uuid} uses ${this.#bytes} of ${this.#maxBytes} bytes. Raise results_per_run in config.yaml.`;
    return new SyscallError("EXHAUSTED", message);
  }
}

/** Reads a stored result. Fails with INVALID when it is missing or has changed, with UNAVAILABLE when the disk fails. */
export async function readBlob(fs: FsPort, dir: string, ref: BlobRef): Promise<Uint8Array> {
  const path = join(dir, ref.file);
  const bytes = await read(fs, path, ref.bytes);
  if (bytes !== null && (await hashOf(bytes)) === ref.sha256) return bytes;
  const what = bytes === null ? "is missing" : "has changed since it was stored";
  const message = `${path} ${what}, but the run needs it. Restore the file, or start a new run.`;
  throw new SyscallError("INVALID", message);
}

/** Reads at most `length` bytes; null when there is no such file. */
async function read(fs: FsPort, path: string, length: number): Promise<Uint8Array | null> {
  try {
    return await withFileAsync(fs, path, "read", (fd) => readUpTo(fs, fd, length));
  } catch (error) {
    if (errnoOf(error) === "ENOENT") return null;
    throw ioError(error, "read", path);
  }
}

export interface BlobStatus extends BlobRef {
  /** Absolute. */
  path: string;
  /** What is wrong with the file; null when it is intact. */
  problem: string | null;
}

/** Checks that a result exists and has its size. `whole` also reads it and compares its hash. */
export async function checkBlob(
  fs: FsPort,
  dir: string,
  ref: BlobRef,
  { whole }: { whole: boolean },
): Promise<BlobStatus> {
  const path = join(dir, ref.file);
  return { ...ref, path, problem: await problemOf(fs, path, ref, whole) };
}

async function problemOf(fs: FsPort, path: string, ref: BlobRef, whole: boolean): Promise<string | null> {
  try {
    return await withFileAsync(fs, path, "read", async (fd) => {
      const size = fs.size(fd);
      if (size !== ref.bytes) return `${path} is damaged: expected ${ref.bytes} bytes, found ${size}.`;
      if (!whole || (await hashOfFile(fs, fd)) === ref.sha256) return null;
      return `${path} is damaged: its content has changed since it was stored.`;
    });
  } catch (error) {
    if (errnoOf(error) === "ENOENT") return `${path} is missing: it was removed.`;
    return ioError(error, "read", path).message;
  }
}

/** Returns true when this file of a run's folder is a result and its content matches its name. */
export async function isWholeResult(fs: FsPort, dir: string, file: string): Promise<boolean> {
  const sha256 = RESULT_FILE.test(file) ? basename(file).slice(0, 64) : null;
  const bytes = fs.stat(join(dir, file))?.size;
  if (sha256 === null || bytes === undefined) return false;
  return (await problemOf(fs, join(dir, file), { file, sha256, bytes }, true)) === null;
}

async function hashOfFile(fs: FsPort, fd: number): Promise<string> {
  const hasher = new Bun.CryptoHasher("sha256");
  const chunk = new Uint8Array(CHUNK_BYTES);
  for (let position = 0; ; ) {
    const got = await fs.readAsync(fd, chunk, position);
    if (got === 0) return hasher.digest("hex");
    hasher.update(chunk.subarray(0, got));
    position += got;
  }
}

/** Hashes off the main thread: a result may have megabytes. */
async function hashOf(bytes: Uint8Array): Promise<string> {
  const copy = new Uint8Array(bytes);
  return Buffer.from(await crypto.subtle.digest("SHA-256", copy)).toString("hex");
}

function safeExtension(name: string): string {
  const extension = extname(name);
  return /^\.[A-Za-z0-9]+$/.test(extension) ? extension.slice(0, MAX_EXTENSION) : "";
}

async function bytesBelow(fs: FsPort, folder: string): Promise<number> {
  let sum = 0;
  for (const name of await fs.list(folder)) sum += fs.stat(join(folder, name))?.size ?? 0;
  return sum;
}
