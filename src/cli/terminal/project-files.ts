/** The files and folders of a project, as the completion of `@file` offers them: without what git ignores. */

import { existsSync } from "node:fs";
import { readdir } from "node:fs/promises";
import { dirname, join } from "node:path";
import type { Clock } from "../../lib/clock.ts";
import { readRegular, unlessSystemError } from "../../lib/regular-file.ts";

/** Maximum entries that are offered; a search through more would be felt. */
const MAX_ENTRIES = 100_000;
/** An older list is read again at the next question, while the old one is used. */
const FRESH_MS = 5000;
const MAX_IGNORE_BYTES = 1024 ** 2;
const READS_AT_ONCE = 16;
/** Folders that are never what a user means, ignored or not. */
const NEVER = new Set([".git", ".hg", ".svn", "node_modules", ".rnix/data"]);

/** One line of a .gitignore. */
interface Rule {
  /** Its patterns are relative to this folder, which ends with "/". */
  folder: string;
  glob: Bun.Glob;
  /** `!pattern`: names it again. */
  isNegated: boolean;
  folderOnly: boolean;
}

interface Folder {
  /** Relative to the project; "" for the project itself, else with "/" at its end. */
  path: string;
  rules: readonly Rule[];
}

/** Lists a project's files in the background. The list can be used while it grows. */
export class ProjectFiles {
  readonly #dir: string;
  readonly #clock: Pick<Clock, "monotonic">;
  #entries: string[] = [];
  #listedAt = Number.NEGATIVE_INFINITY;
  #listing: Promise<void> | undefined;
  #isClosed = false;

  /** `dir`: absolute; paths are relative to it. */
  constructor(dir: string, clock: Pick<Clock, "monotonic">) {
    this.#dir = dir;
    this.#clock = clock;
  }

  /** What is known now; folders end with "/". Begins a new list when this one is old. */
  get entries(): readonly string[] {
    if (this.#clock.monotonic() - this.#listedAt > FRESH_MS) void this.refresh();
    return this.#entries;
  }

  /** The list that is being made; resolves at once when there is none. */
  get complete(): Promise<void> {
    return this.#listing ?? Promise.resolve();
  }

  refresh(): Promise<void> {
    this.#listing ??= this.#list().finally(() => {
      this.#listing = undefined;
      this.#listedAt = this.#clock.monotonic();
    });
    return this.#listing;
  }

  close(): void {
    this.#isClosed = true;
  }

  async #list(): Promise<void> {
    const found: string[] = [];
    // The first list is shown while it grows; a later one replaces the earlier at its end.
    if (this.#entries.length === 0) this.#entries = found;
    let open: Folder[] = [{ path: "", rules: await this.#rulesAbove() }];
    while (open.length > 0 && found.length < MAX_ENTRIES && !this.#isClosed) {
      const now = open.splice(0, READS_AT_ONCE);
      const below = await Promise.all(now.map((folder) => this.#read(folder, found)));
      open = [...open, ...below.flat()];
    }
    this.#entries = found;
  }

  /** The rules of the folders above, up to the root of the work tree: the project may be a part of it. */
  async #rulesAbove(): Promise<Rule[]> {
    const above: Rule[] = [];
    for (let dir = this.#dir; !existsSync(join(dir, ".git")); ) {
      if (dirname(dir) === dir) return [];
      dir = dirname(dir);
      above.unshift(...(await rulesIn(dir)));
    }
    return above;
  }

  async #read(folder: Folder, found: string[]): Promise<Folder[]> {
    const dir = join(this.#dir, folder.path);
    const names = await entriesOf(dir);
    const isIgnoring = names.some(({ name }) => name === ".gitignore");
    const rules = isIgnoring ? [...folder.rules, ...(await rulesIn(dir))] : folder.rules;
    const below: Folder[] = [];
    for (const { name, isFolder } of names) {
      const path = folder.path + name;
      if (found.length >= MAX_ENTRIES) break;
      if (NEVER.has(name) || NEVER.has(path) || isIgnored(join(dir, name), isFolder, rules)) continue;
      found.push(isFolder ? `${path}/` : path);
      if (isFolder) below.push({ path: `${path}/`, rules });
    }
    return below;
  }
}

async function rulesIn(dir: string): Promise<Rule[]> {
  try {
    const text = await readRegular(join(dir, ".gitignore"), MAX_IGNORE_BYTES);
    return ignoreRules(text.toString(), dir);
  } catch {
    // None, or not readable: then it ignores nothing here.
    return [];
  }
}

/** Empty for a folder that can't be read. Links are offered and not followed. */
async function entriesOf(folder: string): Promise<{ name: string; isFolder: boolean }[]> {
  const entries = (await unlessSystemError(readdir(folder, { withFileTypes: true }))) ?? [];
  return entries
    .map((entry) => ({ name: entry.name, isFolder: entry.isDirectory() }))
    .toSorted((a, b) => (a.name < b.name ? -1 : 1));
}

/** Longer lines are no patterns that a person wrote. */
const MAX_PATTERN = 1000;
const MAX_RULES = 5000;

/** The rules of the .gitignore in this folder. */
export function ignoreRules(text: string, dir: string): Rule[] {
  const lines = text.split("\n").slice(0, MAX_RULES);
  return lines.flatMap((line) => ruleOf(line.replace(/\r$/, ""), dir.endsWith("/") ? dir : `${dir}/`));
}

/** What the last matching rule says. `path`: absolute. */
export function isIgnored(path: string, isFolder: boolean, rules: readonly Rule[]): boolean {
  const rule = rules.findLast(
    ({ folder, glob, folderOnly }) => (isFolder || !folderOnly) && glob.match(path.slice(folder.length)),
  );
  return rule !== undefined && !rule.isNegated;
}

function ruleOf(line: string, folder: string): Rule[] {
  if (line.startsWith("#") || line.length > MAX_PATTERN) return [];
  // Trailing spaces count only after a backslash.
  const trimmed = line.replace(/(?<!\\) +$/, "");
  const isNegated = trimmed.startsWith("!");
  const written = isNegated ? trimmed.slice(1) : trimmed;
  const folderOnly = written.endsWith("/");
  const pattern = folderOnly ? written.slice(0, -1) : written;
  // git understands no set without an end.
  if (pattern === "" || /(?<!\\)\[(?!.[^\]]*\])/.test(pattern)) return [];
  // Braces mean nothing to git.
  const literal = pattern.replace(/^\//, "").replace(/[{}]/g, "\\$&");
  const glob = new Bun.Glob(pattern.includes("/") ? literal : `**/${literal}`);
  return [{ folder, glob, isNegated, folderOnly }];
}
