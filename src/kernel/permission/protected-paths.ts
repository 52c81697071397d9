/**
 * Paths whose content another program runs or trusts: only a rule that names them lets a tool write there.
 *
 * Protected are `.git` and `.rnix` with all below them, in any folder, and bare repositories: git runs programs
 * that a repository names, Rnix loads agents, plugins and records.
 */

import { literalHead, type PathSegments } from "./glob.ts";

/** Other spellings of the names that some file systems resolve to them: 8.3 names, and case (see `fold`). */
const PROTECTED: ReadonlyMap<string, string> = new Map([
  [".git", ".git"],
  ["git~1", ".git"],
  [".rnix", ".rnix"],
  ["rnix~1", ".rnix"],
]);

/** Files that make a folder a git repository. With `commondir`, the others are in another folder. */
const BARE_REPOSITORIES = [
  ["HEAD", "objects", "refs"],
  ["HEAD", "commondir"],
] as const;

/** Why a target is protected. Depths count the segments of the target's absolute path. */
export interface Protection {
  /** The folder, as a message shows it. */
  folder: string;
  /** The program that would run or load what is written there. */
  reader: "git" | "Rnix";
  /** A bare repository: the folder's depth. */
  bareDepth?: number;
}

/**
 * Returns null for a path that any rule may cover. Names in the project's own path do not count.
 * `isThere`: see `Facts`.
 */
export function protectionOf(target: PathSegments, isThere: (path: string) => boolean): Protection | null {
  const path = target.relative ?? target.absolute;
  const named = path.findIndex((part) => protectedName(part) !== null);
  if (named >= 0) {
    const reader = protectedName(path[named] ?? "") === ".rnix" ? "Rnix" : "git";
    return { folder: shown(target, path.slice(0, named + 1)), reader };
  }
  const from = target.absolute.length - path.length;
  for (let depth = target.absolute.length - 1; depth >= from; depth--) {
    if (!isBareWith(target.absolute.slice(0, depth), target.absolute[depth] ?? "", isThere)) continue;
    return { folder: shown(target, path.slice(0, depth - from)), reader: "git", bareDepth: depth };
  }
  return null;
}

/** Returns true when the folder is a bare repository, or becomes one when a file of this name is written into it. */
function isBareWith(folder: readonly string[], name: string, isThere: (path: string) => boolean): boolean {
  const written = fold(name);
  return BARE_REPOSITORIES.some((parts) =>
    parts.every((part) => part.toLowerCase() === written || isThere(`/${[...folder, part].join("/")}`)),
  );
}

/**
 * Returns true when a pattern that matches this path names the protected part: it contains each protected name without a
 * wildcard, and all segments down to a bare repository. `path` begins where the pattern begins; `outside` is the number
 * of segments of the absolute path before that.
 */
export function namesProtected(
  pattern: readonly string[],
  path: readonly string[],
  { bareDepth }: Pick<Protection, "bareDepth">,
  outside: number,
): boolean {
  const literal = countProtected(pattern);
  for (const [name, count] of countProtected(path)) if ((literal.get(name) ?? 0) < count) return false;
  if (bareDepth === undefined) return true;
  return literalHead(pattern).length >= Math.max(1, bareDepth - outside);
}

/** Counts each protected name in a path or, without a wildcard, in a pattern. */
export function countProtected(parts: readonly string[]): Map<string, number> {
  const counts = new Map<string, number>();
  for (const part of parts) {
    const name = protectedName(part);
    if (name !== null) counts.set(name, (counts.get(name) ?? 0) + 1);
  }
  return counts;
}

function protectedName(part: string): string | null {
  return PROTECTED.get(fold(part)) ?? null;
}

/** Removes what some file systems ignore in a name: case, and invisible characters. */
function fold(part: string): string {
  return part
    .normalize("NFC")
    .replace(/[\u200c-\u200f\u202a-\u202e\u206a-\u206f\ufeff]/g, "")
    .toLowerCase();
}

function shown(target: PathSegments, path: readonly string[]): string {
  const text = path.join("/");
  return target.relative === null ? `/${text}` : text || ".";
}
