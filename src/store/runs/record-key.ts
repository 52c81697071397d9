/** The key that authenticates the records of a user. */

import nodeFs from "node:fs";
import { dirname, join } from "node:path";
import { errnoOf } from "../../lib/error-detail.ts";
import { SyscallError } from "../../plugin/index.ts";
import { temporaryOf } from "../files/document.ts";
import { FileLock } from "../files/file-lock.ts";
import { ioError, realFs, withFile, writeAll } from "../files/fs-port.ts";

const KEY_BYTES = 32;
/** Maximum time to wait for another rnix that makes the key. */
const LOCK_MS = 5_000;

/** Errors after which the key stays in memory, because no file can be made. */
const UNWRITABLE = /^(?:EACCES|EDQUOT|ENOENT|ENOSPC|ENOTDIR|EPERM|EROFS)$/;

/** A key on its way to a Worker. */
export interface WorkerKey {
  bytes: Uint8Array;
  lasting: boolean;
  indexFolder: string | null;
}

/**
 * The key that authenticates the records of this user: 32 random bytes in the user's data folder. A record without a
 * MAC by it is foreign, and is never resumed.
 */
export class RecordKey {
  readonly #bytes: Uint8Array;
  /** True when the key is on disk. Otherwise later commands see the records of this process as foreign. */
  readonly lasting: boolean;
  /** The folder of indexes derived from the records: beside the key. null: they are in memory. */
  readonly indexFolder: string | null;

  private constructor({ bytes, lasting, indexFolder }: WorkerKey) {
    this.#bytes = bytes;
    this.lasting = lasting;
    this.indexFolder = indexFolder;
  }

  /**
   * Reads the key, or makes it once if it is missing. Where no file can be made, returns a key for this process only.
   * Fails with UNAVAILABLE when the file is damaged or belongs to another user.
   */
  static open(path: string): RecordKey {
    const found = readKey(path);
    const indexFolder = join(dirname(path), "index");
    try {
      return new RecordKey({ bytes: found ?? makeKey(path), lasting: true, indexFolder });
    } catch (error) {
      const cause = error instanceof SyscallError ? error.cause : error;
      if (UNWRITABLE.test(errnoOf(cause) ?? "")) return RecordKey.temporary();
      throw ioError(error, "make the key of your records", path);
    }
  }

  /** Reads the key, and makes no file: where there is none, every record is foreign. */
  static ofReader(path: string): RecordKey {
    const found = readKey(path);
    return found ? new RecordKey({ bytes: found, lasting: true, indexFolder: null }) : RecordKey.temporary();
  }

  /** Returns a key that ends with this process. */
  static temporary(): RecordKey {
    return new RecordKey({ bytes: randomKey(), lasting: false, indexFolder: null });
  }

  /** Returns the key that a Worker of this process was given. */
  static ofWorker(key: WorkerKey): RecordKey {
    return new RecordKey(key);
  }

  forWorker(): WorkerKey {
    return { bytes: this.#bytes, lasting: this.lasting, indexFolder: this.indexFolder };
  }

  /** Returns a secret that only this user can compute, for a subject such as a hook. */
  secretOf(subject: string): string {
    return new Bun.CryptoHasher("sha256", this.#bytes).update(`secret ${subject}`).digest("base64url");
  }

  /** Returns the seal that authenticates the records of `subject`, such as one run. */
  sealOf(subject: string): RecordSeal {
    return new RecordSeal(new Bun.CryptoHasher("sha256", this.#bytes).update(subject).digest());
  }
}

let shared: RecordKey | undefined;

/** Returns the default key of stores. It ends with this process. */
export function keyOfThisProcess(): RecordKey {
  shared ??= RecordKey.temporary();
  return shared;
}

function readKey(path: string): Uint8Array | null {
  try {
    return withFile(realFs, path, "read", (fd) => {
      const { uid, size } = nodeFs.fstatSync(fd);
      const owner = process.getuid?.() ?? uid;
      if (size !== KEY_BYTES || uid !== owner) throw damaged(path, size, uid === owner);
      const bytes = new Uint8Array(KEY_BYTES);
      realFs.read(fd, bytes, 0);
      return bytes;
    });
  } catch (error) {
    if (errnoOf(error) === "ENOENT" || errnoOf(error) === "ENOTDIR") return null;
    throw ioError(error, "read the key of your records", path);
  }
}

/** Durable before it is used: a power loss must not make the user's own runs foreign. */
function makeKey(path: string): Uint8Array {
  const lock = FileLock.acquireNow(`${path}.lock`, LOCK_MS);
  const temporary = temporaryOf(path);
  try {
    const made = readKey(path);
    if (made) return made;
    const bytes = randomKey();
    withFile(realFs, temporary, "replace", (fd) => {
      writeAll(realFs, fd, bytes);
      nodeFs.fsyncSync(fd);
    });
    realFs.rename(temporary, path);
    withFile(realFs, dirname(path), "folder", nodeFs.fsyncSync);
    return bytes;
  } finally {
    lock.release({ remove: true });
  }
}

/** node:crypto loads node's streams, which costs each command milliseconds. */
function randomKey(): Uint8Array {
  return crypto.getRandomValues(new Uint8Array(KEY_BYTES));
}

function damaged(path: string, size: number, own: boolean): SyscallError {
  const what = own ? `it has ${size} bytes, expected ${KEY_BYTES}` : "it belongs to another user";
  const message = `${path}, the key of your records, can't be used: ${what}. Restore it, or remove it. A new key is then made, and earlier runs are foreign.`;
  return new SyscallError("UNAVAILABLE", message);
}

/** Bytes of the HMAC-SHA256 that are recorded. */
const MAC_BYTES = 16;
const MAC_CHARS = 22;
const BEFORE = ',"mac":"';
const AFTER = '"}';

/** Characters that a seal adds to a JSON object. */
export const SEAL_BYTES = BEFORE.length + MAC_CHARS + AFTER.length - 1;

/**
 * Authenticates the JSON objects of one run's files. The last key of each is `mac`: HMAC-SHA256, truncated to 128 bits,
 * over the file's name and the text before that key. Each text has its own MAC: a torn or missing line makes no other
 * line foreign. The run's UUID is part of the key; steps and inbox entries contain their numbers.
 */
export class RecordSeal {
  readonly #key: Uint8Array;

  constructor(key: Uint8Array) {
    this.#key = key;
  }

  /** Adds the MAC to the JSON text of a non-empty object. */
  seal(file: string, json: string): string {
    const body = json.slice(0, -1);
    return `${body}${BEFORE}${this.#mac(file, body).toString("base64url")}${AFTER}`;
  }

  /** Returns true when this text was sealed with the same key for a file of the same name. */
  isSealed(file: string, text: Uint8Array | string): boolean {
    const bytes =
      typeof text === "string"
        ? Buffer.from(text)
        : Buffer.from(text.buffer, text.byteOffset, text.byteLength);
    const end = bytes.length - AFTER.length;
    const at = end - MAC_CHARS;
    const body = at - BEFORE.length;
    if (body < 1 || bytes.toString("latin1", body, at) !== BEFORE) return false;
    if (bytes.toString("latin1", end) !== AFTER) return false;
    const found = Buffer.from(bytes.toString("latin1", at, end), "base64url");
    return found.length === MAC_BYTES && sameBytes(found, this.#mac(file, bytes.subarray(0, body)));
  }

  #mac(file: string, body: string | Uint8Array): Buffer {
    const hasher = new Bun.CryptoHasher("sha256", this.#key);
    return hasher.update(`${file}\n`).update(body).digest().subarray(0, MAC_BYTES);
  }
}

/** Takes the same time wherever the first difference is. node:crypto has one, and loads node's streams with it. */
function sameBytes(one: Uint8Array, other: Uint8Array): boolean {
  let difference = one.length ^ other.length;
  for (let i = 0; i < one.length; i++) difference |= (one[i] ?? 0) ^ (other[i] ?? 0);
  return difference === 0;
}
