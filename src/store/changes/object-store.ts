/** The contents of files that a run changed, before and after: loose objects as git writes them, below the run's folder. */

import { dirname, join } from "node:path";
import { errnoOf } from "../../lib/error-detail.ts";
import { bytesOf } from "../../lib/file-name.ts";
import { SyscallError } from "../../plugin/index.ts";
import { isLink } from "../files/data-dir.ts";
import { makeFolder } from "../files/document.ts";
import {
  type FsPort,
  ioError,
  NO_PLAIN_FILE,
  namesIn,
  placeFile,
  readUpTo,
  realFs,
  withFileAsync,
} from "../files/fs-port.ts";

export const SNAPSHOTS = "snapshots";
export const CHANGES = "changes.jsonl";

/** Speed counts more than size: most objects are short. */
const LEVEL = 1;
/** Maximum bytes of a compressed object that is read. */
const MAX_PACKED_BYTES = 256 * 1024 * 1024;
const SMALL_BYTES = 64 * 1024;
const OID = /^[0-9a-f]{40}$/;

/** The hash by which a repository of git names its objects. */
export type ObjectFormat = "sha1" | "sha256";

/** One entry of a folder that `putTree` writes. */
export interface TreeEntry {
  mode: "100644" | "100755" | "120000" | "40000";
  name: string;
  oid: string;
}

interface ObjectStoreOptions {
  /** The folder below which contents are kept, usually the run's. */
  dir: string;
  /** Maximum bytes of all contents; further ones are refused with EXHAUSTED. */
  maxBytes: number;
  fs?: FsPort;
}

/**
 * Contents by their name in git, so that git can compare them. git is not needed to write or read them. Equal content is
 * one file, and a file never changes. A read checks the content against its name.
 */
export class ObjectStore {
  /** The folder of objects, absolute. */
  readonly objects: string;
  readonly #o: ObjectStoreOptions;
  readonly #fs: FsPort;
  readonly #written = new Map<string, Promise<void>>();
  #bytes: Promise<number> | undefined;
  #temporaries = 0;

  constructor(o: ObjectStoreOptions) {
    this.#o = o;
    this.#fs = o.fs ?? realFs;
    this.objects = join(o.dir, SNAPSHOTS, "objects");
  }

  put(content: Uint8Array): Promise<string> {
    return this.#put("blob", content);
  }

  putTree(entries: readonly TreeEntry[]): Promise<string> {
    // git sorts a folder as if its name ended with a slash.
    const key = ({ mode, name }: TreeEntry): Buffer => bytesOf(mode === "40000" ? `${name}/` : name);
    const sorted = entries.toSorted((a, b) => Buffer.compare(key(a), key(b)));
    const parts = sorted.flatMap(({ mode, name, oid }) => [
      bytesOf(`${mode} ${name}\0`),
      Buffer.from(oid, "hex"),
    ]);
    return this.#put("tree", Buffer.concat(parts));
  }

  /** Reads a file's content. Returns null when it is missing, or differs from its name. */
  async get(oid: string): Promise<Uint8Array | null> {
    if (!OID.test(oid)) return null;
    const packed = await this.#read(this.#path(oid));
    if (packed === null) return null;
    try {
      const { expand } = await import("./zlib.ts");
      const whole = await expand(packed);
      const end = whole.indexOf(0);
      if (end < 0 || !whole.subarray(0, 5).equals(BLOB)) return null;
      return (await hashOf("sha1", whole)) === oid ? whole.subarray(end + 1) : null;
    } catch (thrown) {
      if (errnoOf(thrown) === undefined) throw thrown;
      return null; // Damaged: zlib could not read it.
    }
  }

  #path(oid: string): string {
    return join(this.objects, oid.slice(0, 2), oid.slice(2));
  }

  async #put(type: "blob" | "tree", content: Uint8Array): Promise<string> {
    const whole = framed(type, content);
    const oid = await hashOf("sha1", whole);
    let written = this.#written.get(oid);
    if (written === undefined) {
      written = this.#write(oid, whole);
      this.#written.set(oid, written);
      // The next caller with the same content tries again.
      written.catch(() => this.#written.delete(oid));
    }
    await written;
    return oid;
  }

  async #write(oid: string, whole: Uint8Array): Promise<void> {
    const fs = this.#fs;
    const path = this.#path(oid);
    const there = fs.stat(path);
    if (there && !there.isLink && !there.isFolder) return;
    this.#bytes ??= this.#stored();
    const before = await this.#bytes;
    if (before + whole.length > this.#o.maxBytes) throw this.#full();
    this.#bytes = Promise.resolve(before + whole.length);
    const { compress } = await import("./zlib.ts");
    const packed = await compress(whole, { level: LEVEL });
    for (const folder of [join(this.#o.dir, SNAPSHOTS), this.objects, dirname(path)]) {
      if (fs.stat(folder)?.isLink) throw isLink(folder);
    }
    makeFolder(dirname(path), fs);
    const temporary = join(dirname(path), `~${++this.#temporaries}.tmp`);
    try {
      await placeFile(fs, temporary, path, packed);
    } catch (thrown) {
      throw ioError(thrown, "keep the content of a changed file", path);
    }
  }

  async #read(path: string): Promise<Uint8Array | null> {
    const fs = this.#fs;
    try {
      return await withFileAsync(fs, path, "read", async (fd) => {
        const size = fs.size(fd);
        return size > MAX_PACKED_BYTES ? null : readUpTo(fs, fd, size);
      });
    } catch (thrown) {
      if (NOT_A_CONTENT.has(errnoOf(thrown) ?? "")) return null;
      throw ioError(thrown, "read the content of a changed file", path);
    }
  }

  /** The bytes that an earlier process of the run has stored, packed. */
  async #stored(): Promise<number> {
    let sum = 0;
    for (const folder of await this.#names(this.objects)) {
      for (const name of await this.#names(join(this.objects, folder)))
        sum += this.#fs.stat(join(this.objects, folder, name))?.size ?? 0;
    }
    return sum;
  }

  #names(folder: string): Promise<string[]> {
    return namesIn(this.#fs, folder, "list the contents of changed files");
  }

  #full(): SyscallError {
    const message = `the contents of changed files may use ${this.#o.maxBytes} bytes of a run (undo_per_run in config.yaml)`;
    return new SyscallError("EXHAUSTED", message);
  }
}

/** Something else stands in its place, or nothing. */
const NOT_A_CONTENT: ReadonlySet<string> = new Set(["ENOENT", "ENOTDIR", "ELOOP", "ENXIO", NO_PLAIN_FILE]);

const BLOB = Buffer.from("blob ");

/** The name that git gives to a file's content. */
export function blobName(format: ObjectFormat, content: Uint8Array): Promise<string> {
  return hashOf(format, framed("blob", content));
}

function framed(type: "blob" | "tree", content: Uint8Array): Uint8Array {
  return Buffer.concat([Buffer.from(`${type} ${content.length}\0`), content]);
}

/** Hashes off the main thread: a file may have megabytes. The way there takes longer than to hash a small one. */
async function hashOf(format: ObjectFormat, whole: Uint8Array): Promise<string> {
  if (whole.length <= SMALL_BYTES) return new Bun.CryptoHasher(format).update(whole).digest("hex");
  const algorithm = format === "sha1" ? "SHA-1" : "SHA-256";
  return Buffer.from(await crypto.subtle.digest(algorithm, new Uint8Array(whole))).toString("hex");
}
