/** Makes and compares secrets. */

import { timingSafeEqual } from "node:crypto";

/** 256 random bits, for an address or a cookie. */
export function secret(): string {
  return Buffer.from(crypto.getRandomValues(new Uint8Array(32))).toString("base64url");
}

/** Compares in constant time, so that the duration reveals nothing about either text. */
export function isSame(known: string, given: string): boolean {
  const [a, b] = [known, given].map((text) => new Bun.CryptoHasher("sha256").update(text).digest());
  return a !== undefined && b !== undefined && timingSafeEqual(a, b);
}
