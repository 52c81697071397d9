import type { FileHandle } from "node:fs/promises";
import { heed } from "../errors.ts";

export const CHUNK_BYTES = 64 * 1024;

/** A file's bytes from its start, piece by piece. A piece is good until the next one is asked for. */
export async function* chunks(handle: FileHandle, signal: AbortSignal): AsyncGenerator<Uint8Array> {
  const buffer = Buffer.allocUnsafe(CHUNK_BYTES);
  for (let position = 0; ; ) {
    heed(signal);
    const { bytesRead } = await handle.read(buffer, 0, buffer.length, position);
    if (bytesRead === 0) return;
    position += bytesRead;
    yield buffer.subarray(0, bytesRead);
  }
}
