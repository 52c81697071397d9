import { realpath } from "node:fs/promises";
import { basename, dirname, join, resolve, sep } from "node:path";
import { errnoOf, systemError } from "./errors.ts";

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
