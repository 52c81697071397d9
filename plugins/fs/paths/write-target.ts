import type { Stats } from "node:fs";
import { lstat, realpath, stat } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { SyscallError } from "rnix/plugin";
import { errnoOf } from "../errors.ts";

/** Where a file is to be written: an existing real folder, folders to be made below it, and the name. */
export interface Target {
  folder: string;
  missing: string[];
  name: string;
  /** The whole path. */
  path: string;
  /** The file as it is now; absent when there is none. */
  stat?: Stats;
}

/** Where a write to this absolute path would go. A symlink that leads nowhere is refused. */
export async function locate(absolute: string): Promise<Target> {
  const missing: string[] = [];
  for (let path = absolute; ; path = dirname(path)) {
    const real = await realIfThere(path);
    if (real === undefined) {
      missing.unshift(basename(path));
      continue;
    }
    const info = await stat(real);
    const name = missing.pop();
    if (name === undefined) {
      return { folder: dirname(real), missing, name: basename(real), path: real, stat: info };
    }
    if (!info.isDirectory()) {
      throw new SyscallError("INVALID", `${path} is a file, not a folder: nothing can be written below it.`);
    }
    return { folder: real, missing, name, path: join(real, ...missing, name) };
  }
}

/** undefined when nothing is there. A symlink that leads nowhere is refused: its aim can't be checked. */
async function realIfThere(path: string): Promise<string | undefined> {
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
  throw new SyscallError(
    "PERMISSION",
    `${path} is a symlink that leads nowhere. Write to its aim, or remove it first.`,
  );
}
