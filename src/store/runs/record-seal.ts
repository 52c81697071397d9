/** The MAC that authenticates the records of one run. */

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
