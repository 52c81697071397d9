/** Reads and atomically replaces documents. */

import nodeFs from "node:fs";
import { basename, dirname, join } from "node:path";
import { z } from "zod";
import { errnoOf } from "../../lib/error-detail.ts";
import { issueText } from "../../lib/issue-text.ts";
import { SCHEMA_VERSION } from "../../lib/schema-version.ts";
import { SyscallError } from "../../plugin/index.ts";
import {
  type FsPort,
  ioError,
  readUpTo,
  realFs,
  removeLeftover,
  withFile,
  withFileAsync,
  writeAll,
  writeAllAsync,
} from "./fs-port.ts";

/** Maximum bytes of a document, because it is read into memory as a whole. */
const MAX_DOCUMENT_BYTES = 64 * 1024 * 1024;

interface StoredDocument {
  text: string;
  /** Hash of the content. */
  version: string;
}

/** Reads a document; null when there is none. Fails with INVALID when it is not UTF-8, with EXHAUSTED when it is too large. */
export async function readDocument(path: string, fs: FsPort = realFs): Promise<StoredDocument | null> {
  const bytes = await readBytes(path, fs);
  if (bytes === null) return null;
  try {
    const text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
    return { text, version: contentVersion(text) };
  } catch (cause) {
    throw new SyscallError("INVALID", `Expected UTF-8 text in ${path}, found other bytes.`, { cause });
  }
}

/** Returns the version of a file without reading it as text; null when there is none. */
export async function versionOf(path: string, fs: FsPort = realFs): Promise<string | null> {
  const bytes = await readBytes(path, fs);
  return bytes && contentVersion(bytes);
}

function contentVersion(content: string | Uint8Array): string {
  return Bun.CryptoHasher.hash("sha256", content, "hex");
}

/**
 * Replaces a document atomically and durably: readers see the old or the new text, also after a power loss. Several
 * writers must use a lock. `place` renames the written file. With `temporaryOf(path)` as `temporary`, a document of one
 * writer overwrites what a killed one has left. Returns the new version.
 */
export async function replaceDocument(
  path: string,
  text: string,
  fs: FsPort = realFs,
  place: (temporary: string) => void | Promise<void> = (temporary) => fs.rename(temporary, path),
  temporary = join(dirname(path), `~${basename(path)}.${process.pid}-${++temporaries}.tmp`),
): Promise<string> {
  try {
    await withFileAsync(fs, temporary, "replace", async (fd) => {
      await writeAllAsync(fs, fd, Buffer.from(text));
      await gatedSync(() => fs.fsync(fd));
    });
    await place(temporary);
  } catch (error) {
    removeLeftover(fs, temporary);
    throw ioError(error, `replace ${basename(path)}`, path);
  }
  await syncDirectory(dirname(path), fs);
  return contentVersion(Buffer.from(text));
}

/**
 * Replaces a document without waiting for the disk: atomic for readers and safe from a kill, not from a
 * power loss. Synchronous, so that two replacements never overlap. The document has one writer. `place`
 * renames the written file.
 */
export function replaceDocumentNow(
  path: string,
  text: string,
  fs: FsPort = realFs,
  place: (temporary: string) => void = (temporary) => fs.rename(temporary, path),
): void {
  const temporary = temporaryOf(path);
  try {
    withFile(fs, temporary, "replace", (fd) => writeAll(fs, fd, Buffer.from(text)));
    place(temporary);
  } catch (error) {
    removeLeftover(fs, temporary);
    throw ioError(error, `replace ${basename(path)}`, path);
  }
}

/** Returns the temporary file name of a document with one writer. */
export function temporaryOf(path: string): string {
  return join(dirname(path), `~${basename(path)}.tmp`);
}

/** Makes the entries of a folder durable: files created, renamed and removed in it. */
export function syncDirectory(dir: string, fs: FsPort = realFs): Promise<void> {
  return syncFile(dir, fs, "folder");
}

/** Makes a folder of mode 0700 and its missing parents. Returns true when this call made it. */
export function makeFolder(dir: string, fs: FsPort = realFs): boolean {
  try {
    return fs.mkdir(dir);
  } catch (error) {
    throw ioError(error, "make the folder", dir);
  }
}

/** Removes a folder and its content, off the main thread. A missing folder is no error. */
export async function removeAll(dir: string, doing: string): Promise<void> {
  try {
    await nodeFs.promises.rm(dir, { recursive: true, force: true });
  } catch (error) {
    throw ioError(error, doing, dir);
  }
}

/** Removes an empty folder. A link, or a folder that is not empty, stays. */
export function removeEmptyFolder(dir: string): void {
  try {
    nodeFs.rmdirSync(dir);
  } catch (error) {
    if (errnoOf(error) === undefined) throw error;
  }
}

/** Rejects data of a newer Rnix, because changing it could damage it. `what` names the data in the message. */
export function checkSchemaVersion(value: unknown, what: string, known: number = SCHEMA_VERSION): void {
  const found = Versioned.safeParse(value);
  if (!found.success || found.data.v === undefined || found.data.v <= known) return;
  const message = `${what} has schema version ${found.data.v}; this rnix reads versions up to ${known}. It was written by a newer rnix: update this one. Nothing was changed.`;
  throw new SyscallError("INVALID", message);
}

/** Returns true for an intact document of a newer schema. */
export function isOfNewerSchema(text: string, known: number = SCHEMA_VERSION): boolean {
  try {
    const found = Versioned.safeParse(JSON.parse(text));
    return found.success && (found.data.v ?? known) > known;
  } catch {
    return false; // No JSON: damaged.
  }
}

const Versioned = z.object({ v: z.number().optional() });

/** Parses a JSON document of Rnix. Fails with INVALID, naming the file and its faults. */
export function parseDocument<T>(schema: z.ZodType<T>, text: string, what: string): T {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (cause) {
    throw new SyscallError("INVALID", `${what} is damaged: expected JSON, found ${preview(text)}.`, {
      cause,
    });
  }
  checkSchemaVersion(value, what);
  const parsed = schema.safeParse(value);
  if (parsed.success) return parsed.data;
  throw new SyscallError("INVALID", `${what} is damaged: ${issueText(parsed.error)}`, {
    cause: parsed.error,
  });
}

let temporaries = 0;

function preview(text: string): string {
  return text === "" ? "an empty file" : JSON.stringify(text.slice(0, 60));
}

async function readBytes(path: string, fs: FsPort): Promise<Uint8Array | null> {
  try {
    return await withFileAsync(fs, path, "read", async (fd) => {
      const size = fs.size(fd);
      if (size > MAX_DOCUMENT_BYTES) {
        const message = `${path} has ${size} bytes; the limit of a document is ${MAX_DOCUMENT_BYTES} bytes.`;
        throw new SyscallError("EXHAUSTED", message);
      }
      // A replacement creates a new file, so the size of this one does not change during the read.
      return readUpTo(fs, fd, size);
    });
  } catch (error) {
    if (errnoOf(error) === "ENOENT") return null;
    throw ioError(error, `read ${basename(path)}`, path);
  }
}

/** Makes a file's or a folder's content durable. Opened only when the sync starts, so that few files are open at once. */
export async function syncFile(path: string, fs: FsPort, mode: "read" | "folder" = "read"): Promise<void> {
  try {
    await gatedSync(() => withFileAsync(fs, path, mode, (fd) => fs.fsync(fd)));
  } catch (error) {
    throw ioError(error, `make ${basename(path)} durable`, path);
  }
}

/** Maximum parallel syncs in the process, so that a slow disk does not fill the runtime's thread pool. */
const IN_FLIGHT = 4;

let running = 0;
const waiting: (() => void)[] = [];

/** Runs a sync when a slot is free, in the order of the requests. */
export async function gatedSync(sync: () => Promise<void>): Promise<void> {
  if (running >= IN_FLIGHT) await new Promise<void>((go) => waiting.push(go));
  else running++;
  try {
    await sync();
  } finally {
    // Hand the slot to the next request, so that no newer one can take it first.
    const next = waiting.shift();
    if (next) next();
    else running--;
  }
}

/**
 * A document that is replaced without waiting for the disk, but survives a power loss: the durable version
 * stays beside the new one until that is durable too. It has one writer; `readDurable` reads it. No file is open
 * between calls.
 */
export class DurableDocument {
  readonly #path: string;
  readonly #fs: FsPort;
  /** The current file is durable, or an earlier writer left it. */
  #durable: boolean;
  #replacements = 0;
  /** The last replacement whose sync has begun. */
  #synced = 0;
  #syncing: Promise<void> | undefined;
  /** The previous version may be beside it. */
  #hasPrevious: boolean;

  /** `there`: an earlier writer has left a document at this path. */
  constructor(path: string, o: { fs?: FsPort; there?: boolean } = {}) {
    this.#path = path;
    this.#fs = o.fs ?? realFs;
    this.#durable = o.there ?? false;
    this.#hasPrevious = o.there ?? false;
  }

  /** Replaces the text; readers see the old or the new one, also after a kill. Synchronous, so replacements never overlap. */
  replace(text: string): void {
    replaceDocumentNow(this.#path, text, this.#fs, (temporary) => this.#place(temporary));
    this.#replacements++;
  }

  /**
   * Makes the last replacement's content durable and returns its number. The caller then makes its name durable and
   * calls `settle` with that number.
   */
  async sync(): Promise<number> {
    const replacement = this.#replacements;
    if (this.#synced !== replacement) {
      this.#synced = replacement;
      this.#syncing = syncFile(this.#path, this.#fs);
    }
    await this.#syncing;
    return replacement;
  }

  /**
   * Marks this replacement as durable and removes the previous version. Returns false when a newer replacement came
   * meanwhile, which must be synced too.
   */
  settle(replacement: number): boolean {
    if (replacement !== this.#replacements) return false;
    if (this.#durable) return true;
    this.#durable = true;
    if (this.#hasPrevious) removeLeftover(this.#fs, previousOf(this.#path));
    this.#hasPrevious = false;
    return true;
  }

  #place(temporary: string): void {
    const saved = this.#durable && this.#savePrevious();
    try {
      this.#fs.rename(temporary, this.#path);
    } catch (error) {
      if (saved) this.#fs.rename(previousOf(this.#path), this.#path);
      throw error;
    }
    this.#durable = false;
    this.#hasPrevious ||= saved;
  }

  /** Renames the current version to the previous one. Readers use that until the new version has its name. */
  #savePrevious(): boolean {
    try {
      this.#fs.rename(this.#path, previousOf(this.#path));
      return true;
    } catch (error) {
      // The document was removed, so there is no version to save.
      if (errnoOf(error) === "ENOENT") return false;
      throw error;
    }
  }
}

/**
 * Reads a document; null when there is none. When a power loss damaged it and `parse` throws, the previous version is
 * read. Fails with INVALID when both are damaged, and for a newer schema.
 */
export async function readDurable<T>(
  path: string,
  parse: (text: string) => T,
  fs: FsPort = realFs,
): Promise<T | null> {
  const read = async (file: string): Promise<Attempt<T | null>> => {
    const found = await attempt(() => readDocument(file, fs));
    if ("error" in found) return found;
    if (found.value === null) return { value: null };
    const { text } = found.value;
    return isOfNewerSchema(text) ? { value: parse(text) } : attempt(() => parse(text));
  };
  const now = await read(path);
  if ("value" in now && now.value !== null) return now.value;
  const before = await read(previousOf(path));
  if ("value" in before && before.value !== null) return before.value;
  // The writer may have been between its two renames, and may have finished now.
  const again = "error" in now ? now : await read(path);
  if ("error" in again) throw again.error;
  return again.value;
}

/**
 * Repairs an earlier writer's document before a new writer uses it. A damaged document is replaced by its previous
 * version; an intact one is made durable.
 */
export async function repairDurable(path: string, fs: FsPort = realFs): Promise<void> {
  const whole = await attempt(async () => JSON.parse((await readDocument(path, fs))?.text ?? ""));
  if ("value" in whole) await syncFile(path, fs);
  else if (fs.stat(previousOf(path)) !== null) fs.rename(previousOf(path), path);
  if (fs.stat(temporaryOf(path)) !== null) removeLeftover(fs, temporaryOf(path));
}

/** Returns the file name of the previous version. */
function previousOf(path: string): string {
  return `${path}.before`;
}

type Attempt<T> = { value: T } | { error: unknown };

async function attempt<T>(run: () => T | Promise<T>): Promise<Attempt<T>> {
  try {
    return { value: await run() };
  } catch (error) {
    return { error };
  }
}
