/** Parses and formats sizes in bytes. */

import { SyscallError } from "../plugin/index.ts";

const UNITS = new Map(Object.entries({ GiB: 1024 ** 3, MiB: 1024 ** 2, KiB: 1024, B: 1 }));

/** Parses `64KiB`, `16MiB`, `1GiB`, `500B` to bytes. Fails with INVALID for anything else and for 0. */
export function parseSize(text: string): number {
  const [, digits, unit = ""] = /^(\d+)(\w+)$/.exec(text) ?? [];
  const size = UNITS.get(unit);
  if (size === undefined)
    throw new SyscallError("INVALID", `expected a size like 500B, 64KiB or 16MiB, got "${text}"`);
  const bytes = Number(digits) * size;
  if (bytes === 0) throw new SyscallError("INVALID", `expected a size above 0, got "${text}"`);
  return bytes;
}

/** Formats bytes in the largest unit that divides them: 65536 is `64KiB`. */
export function formatSize(bytes: number): string {
  for (const [unit, size] of UNITS) if (bytes >= size && bytes % size === 0) return `${bytes / size}${unit}`;
  return `${bytes}B`;
}
