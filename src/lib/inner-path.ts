/** Tells whether a path lies in a folder, and where its links lead. */

import { existsSync, realpathSync } from "node:fs";
import { isAbsolute, relative } from "node:path";

/** The path relative to a folder that holds it, "" for the folder itself; null when it lies outside. */
export function innerPath(folder: string, path: string): string | null {
  const inner = relative(folder, path);
  return inner === ".." || inner.startsWith("../") || isAbsolute(inner) ? null : inner;
}

export function isWithin(folder: string, path: string): boolean {
  return innerPath(folder, path) !== null;
}

/** Whether `..` follows the name of a folder: where that is a link, the system goes elsewhere than the text says. */
export function climbsBehind(path: string): boolean {
  return path
    .replace(/^(?:\.{0,2}\/|\.{1,2}$)+/, "")
    .split("/")
    .includes("..");
}

/** The path with its links resolved; unchanged when it is missing: an open below it fails with its own error. */
export function realOrSame(path: string): string {
  try {
    return existsSync(path) ? realpathSync(path) : path;
  } catch {
    return path; // Removed since.
  }
}
