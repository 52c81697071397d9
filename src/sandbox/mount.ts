/** One mount of a sandbox. */

import { dirname } from "node:path";

export type Mount =
  | { kind: "read" | "write"; from: string; to: string }
  /** An empty folder, or an empty file, in its place. */
  | { kind: "folder" | "file"; to: string };

export function bindRead(from: string, to = from): Mount {
  return { kind: "read", from, to };
}

export function bindWrite(from: string, to = from): Mount {
  return { kind: "write", from, to };
}

export function hidden(to: string, kind: "folder" | "file"): Mount {
  return { kind, to };
}

/**
 * Makes these paths below `root` read-only. The folders between are mounts of their own: a mount can't be renamed, so no
 * program puts another folder in the place of a protected path's parent.
 */
export function underRoot(root: string, paths: readonly string[]): Mount[] {
  const between = new Set<string>();
  for (const path of paths) {
    for (let above = dirname(path); above !== root && above.startsWith(root); above = dirname(above))
      between.add(above);
  }
  const parents = [...between].sort((one, other) => one.length - other.length);
  return [...parents.map((path) => bindWrite(path)), ...paths.map((path) => bindRead(path))];
}
