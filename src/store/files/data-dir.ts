import { basename, dirname, join } from "node:path";
import { SyscallError } from "../../plugin/index.ts";
import { makeFolder, replaceDocumentNow } from "./document.ts";
import { errno, type FsPort, ioError, realFs } from "./fs-port.ts";

/**
 * Makes a data folder, mode 0700. Where it is a project's own, `.rnix/data`, the first run also leaves a
 * `.gitignore` in `.rnix/` that keeps `data/` out of the repository. One that is there is not touched. True when the
 * data folder was made here.
 */
export function prepareDataDir(dataDir: string, fs: FsPort = realFs): boolean {
  requireNoLink(dataDir, [], fs);
  const made = makeFolder(dataDir, fs);
  const parent = dirname(dataDir);
  if (projectOf(dataDir) === null) return made;
  const ignore = join(parent, ".gitignore");
  if (!exists(ignore, fs)) writeIgnore(ignore, fs);
  return made;
}

/** The project whose own data folder this is; null for one that the user has named, or that is the user's own. */
export function projectOf(dataDir: string): string | null {
  const parent = dirname(dataDir);
  return basename(dataDir) === "data" && basename(parent) === ".rnix" ? dirname(parent) : null;
}

/**
 * The first part of the path from a project to this file or folder of its data that is a link; null: there is none.
 * Where the user has named the data folder (RNIX_DATA_DIR), links are the user's own word.
 */
export function linkIn(dataDir: string, parts: readonly string[], fs: FsPort = realFs): string | null {
  if (projectOf(dataDir) === null) return null;
  const below = parts.map((_, at) => join(dataDir, ...parts.slice(0, at + 1)));
  return [dirname(dataDir), dataDir, ...below].find((path) => fs.stat(path)?.isLink) ?? null;
}

/** INVALID when a project's data leads through a link: what is written and removed there would be elsewhere. */
export function requireNoLink(dataDir: string, parts: readonly string[], fs: FsPort = realFs): void {
  const link = linkIn(dataDir, parts, fs);
  if (link !== null) throw isLink(link);
}

export function isLink(path: string): SyscallError {
  return new SyscallError(
    "INVALID",
    `${path} is a link, and Rnix follows none to its records: they could be written and removed elsewhere. Remove the link. To keep records in another folder, set RNIX_DATA_DIR.`,
  );
}

function writeIgnore(ignore: string, fs: FsPort): void {
  try {
    replaceDocumentNow(ignore, "data/\n", fs);
  } catch (error) {
    // Another rnix that begins here at this moment writes it under the same name.
    if (!exists(ignore, fs)) throw error;
  }
}

function exists(path: string, fs: FsPort): boolean {
  try {
    fs.close(fs.open(path, "read"));
    return true;
  } catch (error) {
    if (errno(error) === "ENOENT") return false;
    throw ioError(error, `read ${basename(path)}`, path);
  }
}
