import type { Stats } from "node:fs";
import { lstat, readlink, realpath } from "node:fs/promises";
import { basename, dirname, join, resolve, sep } from "node:path";
import { SyscallError } from "rnix/plugin";
import { errnoOf, systemError } from "../errors.ts";

/** With its symlinks resolved as far as something is there; undefined where it can't be followed. */
export async function realPathOfExisting(path: string): Promise<string | undefined> {
  const missing: string[] = [];
  for (let at = path; ; at = dirname(at)) {
    try {
      return join(await realpath(at), ...missing);
    } catch (thrown) {
      if (errnoOf(thrown) !== "ENOENT" || at === dirname(at)) return undefined;
      missing.unshift(basename(at));
    }
  }
}

/** With its symlinks resolved; as it is where nothing is there, or where this user may not look. */
export async function realOrSame(path: string): Promise<string> {
  try {
    return await realpath(path);
  } catch (thrown) {
    if (["ENOENT", "ENOTDIR", "EACCES"].includes(errnoOf(thrown))) return resolve(path);
    throw systemError(thrown, `resolve ${path}`);
  }
}

export function isInside(root: string, path: string): boolean {
  return path === root || path.startsWith(root.endsWith(sep) ? root : root + sep);
}

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
