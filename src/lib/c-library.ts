/** Where the C library is, and how its error number is read, for `dlopen`. */

import { dlopen, type FFIFunction, type Pointer, read } from "bun:ffi";

/** On Linux: glibc first, then the names of musl. */
export const C_LIBRARIES: readonly string[] =
  process.platform === "darwin"
    ? ["libSystem.B.dylib"]
    : ["libc.so.6", `libc.musl-${process.arch === "arm64" ? "aarch64" : "x86_64"}.so.1`, "libc.so"];

/** The functions of the C library, as `dlopen` names them; null where no library has all of them. */
export function openLibrary<F extends Record<string, FFIFunction>>(
  functions: F,
): ReturnType<typeof dlopen<F>>["symbols"] | null {
  for (const name of C_LIBRARIES) {
    try {
      return dlopen(name, functions).symbols;
    } catch {
      // Not this name: try the next.
    }
  }
  return null;
}

/** `pointer`: what `__errno_location` (Linux) or `__error` (macOS) returns. */
export function errnoAt(pointer: Pointer | bigint | null): number {
  return pointer === null ? 0 : read.i32(pointer, 0);
}
