/** The git folders of a project: writable for commits, without what makes git run programs. */

import { existsSync, readdirSync, realpathSync, statSync } from "node:fs";
import { basename, dirname, join, resolve } from "node:path";
import { innerPath } from "../lib/inner-path.ts";
import { readRegularSync } from "../lib/regular-file.ts";
import { bindRead, bindWrite, type Mount, underRoot } from "./mount.ts";
import { PROTECTED_IN_GIT } from "./paths.ts";

/** The folders of the repository in which the project lies, and those of its submodules. */
export function gitMounts(project: string): Mount[] {
  const entry = entryAbove(project);
  if (entry === null) return [];
  if (statSync(entry).isDirectory()) return folderMounts(entry);
  const folder = linkedFolder(entry);
  // A link that nothing confirms could name any folder.
  if (folder === null) return [bindRead(entry)];
  const common = commonFolder(folder);
  return [
    ...folderMounts(common),
    ...(innerPath(common, folder) === null ? folderMounts(folder) : []),
    bindRead(entry),
  ];
}

/** `.git` of the folder or of the nearest one above it. */
function entryAbove(folder: string): string | null {
  const entry = join(folder, ".git");
  if (existsSync(entry)) return entry;
  return dirname(folder) === folder ? null : entryAbove(dirname(folder));
}

/** It is a mount of its own, so that no program renames it and makes another. */
function folderMounts(git: string): Mount[] {
  const folders = [git, ...below(git, "modules", MAX_DEPTH), ...below(git, "worktrees", 1)];
  const kept = folders
    .flatMap((folder) => PROTECTED_IN_GIT.map((name) => join(folder, name)))
    .filter(existsSync);
  return [bindWrite(git), ...underRoot(git, kept)];
}

/** Submodules of submodules. */
const MAX_DEPTH = 4;

/** The git folders in a part of another one. A submodule's name may have slashes. */
function below(git: string, part: string, depth: number): string[] {
  const found: string[] = [];
  const look = (folder: string, left: number): void => {
    if (!existsSync(folder)) return;
    for (const entry of readdirSync(folder, { withFileTypes: true })) {
      if (!entry.isDirectory()) continue;
      const path = join(folder, entry.name);
      if (existsSync(join(path, "HEAD"))) {
        found.push(path);
        if (part === "modules") look(join(path, part), left - 1);
      } else if (left > 1) look(path, left - 1);
    }
  };
  look(join(git, part), depth);
  return found;
}

/** The git folder of a work tree or a submodule, if it names the project in turn. */
function linkedFolder(entry: string): string | null {
  const [, link] = /^gitdir: (.+)/.exec(textOf(entry) ?? "") ?? [];
  if (link === undefined) return null;
  const folder = resolve(dirname(entry), link.trim());
  const back = textOf(join(folder, "gitdir"))?.trim();
  if (back !== undefined && sameFile(resolve(folder, back), entry)) return realpathSync(folder);
  const [, tree] = /^\s*worktree\s*=\s*(.+)$/m.exec(textOf(join(folder, "config")) ?? "") ?? [];
  if (tree !== undefined && sameFile(resolve(folder, tree.trim()), dirname(entry)))
    return realpathSync(folder);
  return null;
}

/** The folder that the work trees of a repository share. */
function commonFolder(folder: string): string {
  const shared = textOf(join(folder, "commondir"))?.trim();
  if (shared === undefined) return folder;
  const common = resolve(folder, shared);
  return basename(dirname(folder)) === "worktrees" && sameFile(common, dirname(dirname(folder)))
    ? common
    : folder;
}

function sameFile(one: string, other: string): boolean {
  return existsSync(one) && existsSync(other) && realpathSync(one) === realpathSync(other);
}

const MAX_BYTES = 256 * 1024;

/** undefined: not there, or no file that git would read. */
function textOf(path: string): string | undefined {
  try {
    return readRegularSync(path, MAX_BYTES).toString("utf8");
  } catch {
    return undefined;
  }
}
