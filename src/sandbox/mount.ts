/** One mount of a sandbox. */

import { dirname } from "node:path";
import { innerPath } from "../lib/inner-path.ts";

export type Mount =
  | { kind: "read" | "write"; from: string; to: string; rule?: string }
  /** An empty folder, or a file that can't be read, in its place. A `closed` folder can't be written. */
  | { kind: "folder" | "closed" | "file"; to: string; rule?: string };

export function bindRead(from: string, to = from): Mount {
  return { kind: "read", from, to };
}

export function bindWrite(from: string, to = from): Mount {
  return { kind: "write", from, to };
}

export function hidden(to: string, kind: "folder" | "closed" | "file"): Mount {
  return { kind, to };
}

/** The last of them counts: it covers the others. */
export function coveredBy(path: string, mounts: readonly Mount[]): Mount | undefined {
  return mounts.findLast(({ to }) => innerPath(to, path) !== null);
}

/**
 * Makes these paths below `root` read-only. The folders between are mounts of their own: a mount can't be renamed, so no
 * program puts another folder in the place of a protected path's parent. `named`: more paths whose parents stay.
 */
export function underRoot(root: string, paths: readonly string[], named: readonly string[] = []): Mount[] {
  const between = new Set<string>();
  for (const path of [...paths, ...named]) {
    for (let above = dirname(path); above !== root && above.startsWith(root); above = dirname(above))
      between.add(above);
  }
  const parents = [...between].sort((one, other) => one.length - other.length);
  return [...parents.map((path) => bindWrite(path)), ...paths.map((path) => bindRead(path))];
}
