/** Where the C library is, and how its error number is read, for `dlopen`. */

import { type Pointer, read } from "bun:ffi";

/** On Linux: glibc first, then the names of musl. */
export const C_LIBRARIES: readonly string[] =
  process.platform === "darwin"
    ? ["libSystem.B.dylib"]
    : ["libc.so.6", `libc.musl-${process.arch === "arm64" ? "aarch64" : "x86_64"}.so.1`, "libc.so"];

/** `pointer`: what `__errno_location` (Linux) or `__error` (macOS) returns. */
export function errnoAt(pointer: Pointer | bigint | null): number {
  return pointer === null ? 0 : read.i32(pointer, 0);
}
