import type { Stats } from "node:fs";
import { lstat, readlink, realpath } from "node:fs/promises";
import { SyscallError } from "rnix/plugin";
import { errnoOf } from "./errors.ts";

/** What Linux puts behind the path of an open file whose name is gone. */
const GONE = " (deleted)";

/**
 * The real path of an open file, asked of its descriptor. Elsewhere than on Linux: the path it was opened by, if
 * that still leads to the same file. PERMISSION when the name was taken away or exchanged meanwhile.
 */
export async function openedPath(fd: number, asked: string, info: Stats): Promise<string> {
  if (process.platform !== "linux") {
    const real = await realpath(asked);
    if (await isStill(real, info)) return real;
    throw exchanged(asked);
  }
  const path = await readlink(`/proc/self/fd/${fd}`);
  // A file may really be called so; of one that is gone no path is known that a rule could decide on.
  if (path.endsWith(GONE) && !(await isStill(path, info))) throw exchanged(asked);
  return path;
}

async function isStill(path: string, info: Stats): Promise<boolean> {
  try {
    const there = await lstat(path);
    return there.ino === info.ino && there.dev === info.dev;
  } catch (thrown) {
    if (errnoOf(thrown) === "ENOENT") return false;
    throw thrown;
  }
}

function exchanged(path: string): SyscallError {
  return new SyscallError("PERMISSION", `${path} was exchanged while it was being opened. Try again.`);
}
