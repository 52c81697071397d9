/** A read-only file whose text is fixed at open. */

import { type FileStat, SyscallError, type VFSFile } from "../../plugin/index.ts";

/** Reads return the text piece by piece; a write fails with PERMISSION. */
export function snapshotFile(devicePath: string, name: string, text: string): VFSFile {
  let position = 0;
  return {
    async write(): Promise<void> {
      throw new SyscallError("PERMISSION", `${devicePath}/${name} is a snapshot and cannot be written.`);
    },
    async read(max: number): Promise<string> {
      const piece = text.slice(position, position + max);
      position += piece.length;
      return piece;
    },
    async close(): Promise<void> {
      position = text.length;
    },
    async stat(): Promise<FileStat> {
      return { name, size: Buffer.byteLength(text), isDevice: false, devicePath };
    },
  };
}
