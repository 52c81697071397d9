/** Refuses everything but regular files. */

import type { Stats } from "node:fs";
import { SyscallError } from "rnix/plugin";

/** Fails with INVALID for folders, FIFOs, sockets and devices. */
export function checkRegular(info: Stats, path: string): void {
  if (info.isFile()) return;
  if (info.isDirectory()) {
    throw new SyscallError(
      "INVALID",
      `${path} is a folder. Glob lists its files: {"pattern": "*", "path": "${path}"}.`,
    );
  }
  throw new SyscallError(
    "INVALID",
    `${path} is ${kindOf(info)}, not a file: reading or writing it could block for ever.`,
  );
}

function kindOf(info: Stats): string {
  if (info.isFIFO()) return "a FIFO";
  if (info.isSocket()) return "a socket";
  return "a device";
}
