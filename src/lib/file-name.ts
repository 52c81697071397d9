/** Names of files as text. A byte that is no UTF-8 becomes a character of U+EF80 to U+EFFF. */

import { isUtf8 } from "node:buffer";

const ODD = 0xef00;
const IS_ODD = /[\uef80-\uefff]/;
const MAX_CHARACTER_BYTES = 4;

/** Two different names never become the same text. */
export function nameOf(bytes: Uint8Array): string {
  const text = textOf(bytes);
  if (!IS_ODD.test(text) && (!text.includes("\ufffd") || isUtf8(bytes))) return text;
  let name = "";
  for (let at = 0; at < bytes.length; ) {
    const char = characterAt(bytes, at);
    name += char === null ? String.fromCharCode(ODD + (bytes[at] ?? 0)) : textOf(char);
    at += char?.length ?? 1;
  }
  return name;
}

/** Whether a name that `nameOf` has made is not UTF-8. */
export function isOddName(name: string): boolean {
  return IS_ODD.test(name);
}

/** The bytes of a name or path that `nameOf` has made. */
export function bytesOf(name: string): Buffer {
  if (!IS_ODD.test(name)) return Buffer.from(name);
  return Buffer.concat(
    [...name].map((char) => (IS_ODD.test(char) ? Buffer.of(char.charCodeAt(0) - ODD) : Buffer.from(char))),
  );
}

/** A path for a call of the file system. */
export function pathOf(name: string): string | Buffer {
  return IS_ODD.test(name) ? bytesOf(name) : name;
}

function textOf(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString();
}

/** The bytes of one character; null for an odd byte, and for a character that stands for one. */
function characterAt(bytes: Uint8Array, at: number): Uint8Array | null {
  for (let length = 1; length <= MAX_CHARACTER_BYTES && at + length <= bytes.length; length++) {
    const char = bytes.subarray(at, at + length);
    if (isUtf8(char)) return IS_ODD.test(textOf(char)) ? null : char;
  }
  return null;
}
