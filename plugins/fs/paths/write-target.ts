/** Finds the place where a file will be written. */

import type { Stats } from "node:fs";
import { lstat, realpath, stat } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { SyscallError } from "rnix/plugin";
import { errnoOf } from "../errors.ts";

/** Where a file will be written: an existing real folder, folders to create below it, and the name. */
export interface WriteTarget {
  folder: string;
  missing: string[];
  name: string;
  path: string;
  /** The existing file; absent when there is none. */
  stat?: Stats;
}

/** The target of a write to this absolute path. A broken symlink is refused. */
export async function locate(absolute: string): Promise<WriteTarget> {
  const missing: string[] = [];
  for (let path = absolute; ; path = dirname(path)) {
    const real = await realIfExists(path);
    if (real === undefined) {
      missing.unshift(basename(path));
      continue;
    }
    const info = await stat(real);
    const name = missing.pop();
    if (name === undefined)
      return { folder: dirname(real), missing, name: basename(real), path: real, stat: info };
    if (!info.isDirectory())
      throw new SyscallError("INVALID", `${path} is a file, not a folder: nothing can be written below it.`);
    return { folder: real, missing, name, path: join(real, ...missing, name) };
  }
}

/** The real path; undefined when nothing exists there. A broken symlink is refused: its target can't be checked. */
async function realIfExists(path: string): Promise<string | undefined> {
  try {
    return await realpath(path);
  } catch (thrown) {
    if (errnoOf(thrown) !== "ENOENT" || path === dirname(path)) throw thrown;
  }
  try {
    await lstat(path);
  } catch (thrown) {
    if (errnoOf(thrown) === "ENOENT") return undefined;
    throw thrown;
  }
  const message = `${path} is a broken symlink. Write to its target, or remove it first.`;
  throw new SyscallError("PERMISSION", message);
}
