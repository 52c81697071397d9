/** Makes a data folder and checks it for links. */

import { basename, dirname, join } from "node:path";
import { errnoOf } from "../../lib/error-detail.ts";
import { SyscallError } from "../../plugin/index.ts";
import { makeFolder, replaceDocumentNow } from "./document.ts";
import { type FsPort, ioError, realFs, withFile } from "./fs-port.ts";

/** Names the derived index of a data folder, in the user's folder of indexes. */
export function indexNameOf(dataDir: string): string {
  return new Bun.CryptoHasher("sha256").update(dataDir).digest("hex").slice(0, 32);
}

/**
 * Makes a data folder, mode 0700. A project's `.rnix/data` also gets a `.gitignore` that excludes all of it from the
 * repository, itself included, so that `git status` stays clean. An existing file is not changed. Returns true when this
 * call made the data folder.
 */
export function prepareDataDir(dataDir: string, fs: FsPort = realFs): boolean {
  requireNoLink(dataDir, [], fs);
  const made = makeFolder(dataDir, fs);
  if (projectOf(dataDir) === null) return made;
  const ignore = join(dataDir, ".gitignore");
  if (!exists(ignore, fs)) writeIgnore(ignore, fs);
  return made;
}

/** Returns the project of a data folder; null for the user's own folder, or one set by RNIX_DATA_DIR. */
export function projectOf(dataDir: string): string | null {
  const parent = dirname(dataDir);
  return basename(dataDir) === "data" && basename(parent) === ".rnix" ? dirname(parent) : null;
}

/**
 * Returns the first link on the path from a project to a file or folder of its data; null when there is none. In a data
 * folder set by RNIX_DATA_DIR, links are allowed.
 */
export function linkIn(dataDir: string, parts: readonly string[], fs: FsPort = realFs): string | null {
  if (projectOf(dataDir) === null) return null;
  const below = parts.map((_, at) => join(dataDir, ...parts.slice(0, at + 1)));
  return [dirname(dataDir), dataDir, ...below].find((path) => fs.stat(path)?.isLink) ?? null;
}

/** Fails with INVALID when the path to a project's data contains a link: writes and removals would go elsewhere. */
export function requireNoLink(dataDir: string, parts: readonly string[], fs: FsPort = realFs): void {
  const link = linkIn(dataDir, parts, fs);
  if (link !== null) throw isLink(link);
}

export function isLink(path: string): SyscallError {
  const message = `${path} is a link. Rnix follows no link to its records, because it could change files elsewhere. Remove the link. To store records in another folder, set RNIX_DATA_DIR.`;
  return new SyscallError("INVALID", message);
}

function writeIgnore(ignore: string, fs: FsPort): void {
  try {
    replaceDocumentNow(ignore, "*\n", fs);
  } catch (error) {
    // Another rnix that starts now may have written it.
    if (!exists(ignore, fs)) throw error;
  }
}

function exists(path: string, fs: FsPort): boolean {
  try {
    return withFile(fs, path, "read", () => true);
  } catch (error) {
    if (errnoOf(error) === "ENOENT") return false;
    throw ioError(error, `read ${basename(path)}`, path);
  }
}
