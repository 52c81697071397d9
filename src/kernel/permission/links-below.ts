/** Finds the links that a pattern or a list of file names may name. */

import { type Dirent, readdirSync, realpathSync } from "node:fs";
import { join } from "node:path";
import { errnoOf } from "../../lib/error-detail.ts";

const MAX_ENTRIES = 50_000;

/**
 * Returns the links whose path below the folder matches these names, one for each level; or, with one name and `deep`, on
 * all levels; no names: none, and no link is followed. null when there is too much to look at, or a name that a shell would
 * split into another path (`splits`), or that is an option.
 */
export function linksBelow(
  dir: string,
  names: readonly string[],
  deep: boolean,
  splits = deep,
): string[] | null {
  const found: string[] = [];
  const seen = new Set<string>();
  // Programs differ in what brackets mean, and a shell takes a pattern that matches nothing for a name.
  const globs = names.map((name) => (/[{}\\[]/.test(name) ? null : new Bun.Glob(name)));
  let left = MAX_ENTRIES;
  return isWhole(dir, 0) ? found : null;

  function isWhole(folder: string, level: number): boolean {
    const glob = globs[deep ? 0 : level];
    return entriesOf(folder).every((entry) => {
      // Of a name that is not UTF-8, another file would be looked at.
      const isOther = glob !== undefined && entry.name.includes("\ufffd");
      // In some locales, `?` matches a byte.
      const matches = glob === null || (glob && (/\P{ASCII}/u.test(entry.name) || glob.match(entry.name)));
      const isMore = splits && (deep || matches) && mayBecomeMore(entry.name);
      if (--left < 0 || isOther || isMore || (matches && entry.name.startsWith("-"))) return false;
      const path = join(folder, entry.name);
      if (entry.isSymbolicLink() && matches) found.push(path);
      const enters = entry.isDirectory() || (entry.isSymbolicLink() && names.length > 0 && isNew(path));
      return !enters || !(deep || (matches && level + 1 < globs.length)) || isWhole(path, level + 1);
    });
  }

  function isNew(link: string): boolean {
    try {
      const real = realpathSync(link);
      return !seen.has(real) && seen.add(real).has(real);
    } catch (thrown) {
      if (errnoOf(thrown) === undefined) throw thrown;
      return false;
    }
  }
}

/** Whether the name has two lines, or a part may lead up or be an option where a shell or `xargs` splits it and strips quotes. */
function mayBecomeMore(name: string): boolean {
  return name.includes("\n") || name.split(/\s/).some((part) => /^[.\\'"]*$|^[\\'"]*-./.test(part));
}

/** Returns the entries of a folder; empty if it does not exist, because then nothing is read. */
function entriesOf(folder: string): Dirent[] {
  try {
    return readdirSync(folder, { withFileTypes: true });
  } catch (thrown) {
    if (errnoOf(thrown) === undefined) throw thrown;
    return [];
  }
}
