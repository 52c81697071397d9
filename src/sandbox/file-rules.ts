/** The rules of a run over files, and the files that are there to which they apply. */

import { type Dirent, existsSync, statSync } from "node:fs";
import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { innerPath, realOrSame } from "../lib/inner-path.ts";

/** One rule. Paths are absolute. */
export interface FileRule {
  text: string;
  covers(path: string): boolean;
  /** Whether it covers the folder with everything below it. */
  coversAll(folder: string): boolean;
  /** Whether it may cover something below the folder. */
  reaches(folder: string): boolean;
  /** It names a folder, which must not be renamed. */
  isAnchored: boolean;
  /** The folder where an absolute pattern begins. */
  root: string | null;
}

export interface FileRules {
  /** Programs can't read what these cover. */
  hidden: readonly FileRule[];
  /** Programs can't write what these cover. */
  kept: readonly FileRule[];
  /** Lifts the protection of what it covers. */
  lifted: FileRule | null;
}

/** A file or folder that is there. */
export interface RulePath {
  path: string;
  isFolder: boolean;
  rule: FileRule;
}

/** What programs may not read or write, and which protected paths they may write. */
export interface RulePaths {
  hidden: RulePath[];
  kept: RulePath[];
  lifted: RulePath[];
  /** The rules that cover more than was looked at. */
  exceeded: string[];
}

/** Each is a mount. */
const MAX_PATHS = 200;
const MAX_ENTRIES = 200_000;
/** Its names are hashes. */
const OBJECTS = ".git/objects";

/**
 * Looks for them in the folders of the run, and where an absolute pattern begins. `protectedPaths`: what a sandbox protects
 * in them. `closed`: folders that programs don't see.
 */
export async function findRulePaths(
  { hidden, kept, lifted }: FileRules,
  folders: readonly string[],
  protectedPaths: readonly string[],
  closed: readonly string[],
): Promise<RulePaths> {
  const outside = hidden.flatMap(({ root }) => (root === null || root === "/" ? [] : [root]));
  const roots = [...new Set([...folders, ...outside])].filter((path) => existsSync(path));
  const search = new RuleSearch(closed);
  return {
    hidden: await search.find(hidden, roots),
    kept: await search.find(kept, folders),
    lifted: lifted === null ? [] : await search.find([lifted], protectedPaths),
    exceeded: [...search.exceeded],
  };
}

class RuleSearch {
  readonly exceeded = new Set<string>();
  readonly #closed: readonly string[];
  #entries = 0;

  constructor(closed: readonly string[]) {
    this.#closed = closed;
  }

  async find(rules: readonly FileRule[], roots: readonly string[]): Promise<RulePath[]> {
    const found = new Map<string, RulePath>();
    const reaching: { folder: string; rules: readonly FileRule[] }[] = [];
    const look = (path: string, isFolder: boolean, among: readonly FileRule[]): void => {
      if (this.#closed.some((one) => innerPath(one, path) !== null)) return;
      const rule = among.find((one) => (isFolder ? one.coversAll(path) : one.covers(path)));
      if (rule) this.#add(found, { path, isFolder, rule });
      else if (isFolder) reaching.push({ folder: path, rules: among.filter((one) => one.reaches(path)) });
    };
    for (const root of rules.length === 0 ? [] : roots) {
      const stats = statSync(root, { throwIfNoEntry: false });
      if (stats) look(root, stats.isDirectory(), rules);
    }
    for (let at = reaching.pop(); at; at = reaching.pop()) {
      const { folder, rules: left } = at;
      if (left.length === 0 || folder.endsWith(OBJECTS)) continue;
      for (const entry of await entriesOf(folder)) {
        this.#entries += 1;
        if (this.#entries > MAX_ENTRIES) for (const { text } of left) this.exceeded.add(text);
        else if (entry.isSymbolicLink()) this.#addTarget(found, join(folder, entry.name), left);
        else look(join(folder, entry.name), entry.isDirectory(), left);
      }
      if (this.#entries > MAX_ENTRIES) break;
    }
    return [...found.values()].sort((one, other) => one.path.length - other.path.length);
  }

  /** A link is not mounted over: what it leads to is. */
  #addTarget(found: Map<string, RulePath>, link: string, rules: readonly FileRule[]): void {
    const rule = rules.find((one) => one.covers(link));
    const path = realOrSame(link);
    const stats = rule && statSync(path, { throwIfNoEntry: false });
    if (!rule || !stats || this.#closed.some((one) => innerPath(one, path) !== null)) return;
    const isFolder = stats.isDirectory();
    if (!isFolder || rule.coversAll(link)) this.#add(found, { path, isFolder, rule });
  }

  #add(found: Map<string, RulePath>, one: RulePath): void {
    if (found.size < MAX_PATHS) found.set(one.path, one);
    else this.exceeded.add(one.rule.text);
  }
}

/** Programs have the same rights: what can't be listed here, they can't read either. */
async function entriesOf(folder: string): Promise<Dirent[]> {
  try {
    return await readdir(folder, { withFileTypes: true });
  } catch {
    return [];
  }
}
