/** Reads a file in chunks. */

import type { FileHandle } from "node:fs/promises";
import { throwIfAborted } from "../../_lib/cancelled.ts";

export const CHUNK_BYTES = 64 * 1024;

/** A file's bytes from its start in chunks. A chunk is valid until the next one is read. */
export async function* readChunks(handle: FileHandle, signal: AbortSignal): AsyncGenerator<Uint8Array> {
  const buffer = Buffer.allocUnsafe(CHUNK_BYTES);
  for (let position = 0; ; ) {
    throwIfAborted(signal);
    const { bytesRead } = await handle.read(buffer, 0, buffer.length, position);
    if (bytesRead === 0) return;
    position += bytesRead;
    yield buffer.subarray(0, bytesRead);
  }
}
