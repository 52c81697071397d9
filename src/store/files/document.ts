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
import { gatedSync } from "./sync-gate.ts";

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
  throw new SyscallError(
    "INVALID",
    `${what} has schema version ${found.data.v}; this rnix reads versions up to ${known}. It was written by a newer rnix: update this one. Nothing was changed.`,
  );
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
        throw new SyscallError(
          "EXHAUSTED",
          `${path} has ${size} bytes; the limit of a document is ${MAX_DOCUMENT_BYTES} bytes.`,
        );
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
