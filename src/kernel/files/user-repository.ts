/** Reads the user's repository: where it is, its index, its ignore patterns and its configuration. It runs no git. */

import { type FileHandle, open, stat } from "node:fs/promises";
import { dirname, join, resolve } from "node:path";
import { errnoOf } from "../../lib/error-detail.ts";
import { openRegular, readOpened, readRegular, unlessSystemError } from "../../lib/regular-file.ts";
import type { ObjectFormat } from "../../store/changes/object-store.ts";

const MAX_INDEX_BYTES = 256 * 1024 ** 2;
/** Maximum bytes of `config`, `commondir`, a `.git` file or an ignore file. */
const MAX_TEXT_BYTES = 1024 ** 2;
/** git follows folders of objects that name others this deep. */
const MAX_ALTERNATES_DEPTH = 5;
const MAX_ALTERNATES = 100;
const COPY_BYTES = 1024 ** 2;

/** The parts of the user's repository that are used. */
export interface Repository {
  root: string;
  /** The text of `info/exclude`, of `info/attributes`, and of the configuration. */
  exclude: string | null;
  attributes: string | null;
  config: string | null;
  format: ObjectFormat;
  /** The folder of its objects, absolute. */
  objects: string;
  /** The folder of its HEAD, and the one of its references: another in a linked work tree. Absolute. */
  gitDir: string;
  commonDir: string;
  /** Stays the same file when git replaces the index; null for a repository that has none yet. */
  index: { handle: FileHandle; mtimeMs: number } | null;
}

/** The root of the work tree in which a folder lies; null when it lies in none. */
export async function rootOf(dir: string): Promise<string | null> {
  for (let at = dir; ; at = dirname(at)) {
    if (await isThere(join(at, ".git"))) return at;
    if (dirname(at) === at) return null;
  }
}

/** Linked work trees and submodules have a file `.git` that names the folder. null for anything else. */
export async function openRepository(root: string): Promise<Repository | null> {
  const gitDir = await gitDirOf(join(root, ".git"));
  if (gitDir === null) return null;
  const shared = (await readIfThere(join(gitDir, "commondir")))?.trim();
  const commonDir = shared ? resolve(gitDir, shared) : gitDir;
  const [config = null, exclude = null, attributes = null] = await Promise.all(
    ["config", "info/exclude", "info/attributes"].map((name) => readIfThere(join(commonDir, name))),
  );
  const format = /^\s*objectformat\s*=\s*"?sha256/im.test(config ?? "") ? "sha256" : "sha1";
  const objects = join(commonDir, "objects");
  return {
    root,
    exclude,
    attributes,
    config,
    format,
    objects,
    gitDir,
    commonDir,
    index: await openIndex(join(gitDir, "index")),
  };
}

async function gitDirOf(path: string): Promise<string | null> {
  if ((await stat(path)).isDirectory()) return path;
  const named = /^gitdir: (.+?)\s*$/.exec((await readRegular(path, MAX_TEXT_BYTES)).toString())?.[1];
  return named === undefined ? null : resolve(dirname(path), named);
}

export async function openIndex(path: string): Promise<Repository["index"]> {
  if (!(await isThere(path))) return null;
  const { handle, stat: found } = await openRegular(path);
  if (found.size <= MAX_INDEX_BYTES) return { handle, mtimeMs: found.mtimeMs };
  await handle.close();
  throw new Error(`${path} has ${found.size} bytes, more than ${MAX_INDEX_BYTES}`);
}

export async function indexBytes(handle: FileHandle): Promise<Buffer> {
  return readOpened("git's index", handle, (await handle.stat()).size, MAX_INDEX_BYTES);
}

/** Keeps the index's time: git compares contents of files written since then. */
export async function copyIndex(from: FileHandle, mtimeMs: number, to: string): Promise<void> {
  const handle = await open(to, "wx", 0o600);
  try {
    const buffer = Buffer.allocUnsafe(COPY_BYTES);
    for (let at = 0; at <= MAX_INDEX_BYTES; ) {
      const { bytesRead } = await from.read(buffer, 0, buffer.length, at);
      if (bytesRead === 0) break;
      const { bytesWritten } = await handle.write(buffer, 0, bytesRead, at);
      at += bytesWritten;
    }
    const second = Math.floor(mtimeMs / 1000);
    await handle.utimes(second, second);
  } finally {
    await handle.close();
  }
}

async function isThere(path: string): Promise<boolean> {
  return (await unlessSystemError(stat(path))) !== null;
}

/** Returns null when the file is missing or not readable. Fails when it is no regular file. */
export async function readIfThere(path: string): Promise<string | null> {
  return (await unlessSystemError(readRegular(path, MAX_TEXT_BYTES)))?.toString() ?? null;
}

/**
 * A folder of objects can name others in `info/alternates`, which git reads whole, also of a FIFO or a device without
 * end. Such a folder is left out.
 */
export async function isBounded(
  objects: string,
  depth = MAX_ALTERNATES_DEPTH,
  seen = new Set<string>(),
): Promise<boolean> {
  if (seen.has(objects) || depth < 0) return true;
  if (seen.add(objects).size > MAX_ALTERNATES) return false;
  let text: string;
  try {
    text = (await readRegular(join(objects, "info/alternates"), MAX_TEXT_BYTES)).toString();
  } catch (error) {
    // git can't open it, either.
    if (errnoOf(error) !== undefined) return true;
    return false;
  }
  for (const line of text.split("\n").filter((one) => one !== "" && !one.startsWith("#"))) {
    // git would unquote a quoted name, so it may lead elsewhere.
    if (line.startsWith('"') || !(await isBounded(resolve(objects, line), depth - 1, seen))) return false;
  }
  return true;
}
