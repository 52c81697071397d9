/** Tells whether a path lies in a folder. */

import { isAbsolute, relative } from "node:path";

/** The path relative to a folder that holds it, "" for the folder itself; null when it lies outside. */
export function innerPath(folder: string, path: string): string | null {
  const inner = relative(folder, path);
  return inner === ".." || inner.startsWith("../") || isAbsolute(inner) ? null : inner;
}

export function isWithin(folder: string, path: string): boolean {
  return innerPath(folder, path) !== null;
}
