/** Resolves symlinks in paths and finds the real path of an open file. */

import { existsSync, realpathSync, type Stats } from "node:fs";
import { lstat, readlink, realpath } from "node:fs/promises";
import { basename, dirname, join, resolve, sep } from "node:path";
import { SyscallError } from "rnix/plugin";
import { errnoOf, systemError } from "../errors.ts";

/** The path with its symlinks resolved as far as it exists; undefined when it can't be followed. */
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

/**
 * The path with its symlinks resolved; unchanged when it can't be reached. In place: each call resolves all guarded
 * folders, and off the thread that takes ten times as long. Most of them do not exist: a thrown error would cost more.
 */
export function realOrSame(path: string): string {
  if (!existsSync(path)) return resolve(path);
  try {
    return realpathSync(path);
  } catch (thrown) {
    if (["ENOENT", "ENOTDIR", "EACCES"].includes(errnoOf(thrown))) return resolve(path);
    throw systemError(thrown, `resolve ${path}`);
  }
}

export function isInside(root: string, path: string): boolean {
  return path === root || path.startsWith(root.endsWith(sep) ? root : root + sep);
}

/** Linux appends this to the path of an open file that was deleted. */
const DELETED = " (deleted)";

/**
 * The real path of an open file, by its descriptor. Outside Linux: the path it was opened by, if that still leads to the
 * same file. PERMISSION when the file was deleted or replaced meanwhile.
 */
export async function openedPath(fd: number, asked: string, info: Stats): Promise<string> {
  if (process.platform !== "linux") {
    const real = await realpath(asked);
    if (await isStill(real, info)) return real;
    throw replaced(asked);
  }
  const path = await readlink(`/proc/self/fd/${fd}`);
  // A file may really have such a name. A deleted file has no path that rules could be checked for.
  if (path.endsWith(DELETED) && !(await isStill(path, info))) throw replaced(asked);
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

function replaced(path: string): SyscallError {
  return new SyscallError("PERMISSION", `${path} was replaced while it was being opened. Try again.`);
}
