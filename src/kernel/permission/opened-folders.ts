/** The folders outside of a project that a person has opened to a run, by a yes or by an "always". */

import { statSync } from "node:fs";
import { homedir } from "node:os";
import { dirname } from "node:path";
import { isWithin, realOrSame } from "../../lib/inner-path.ts";
import type { Rule } from "./rule.ts";

/** Its real path. A single file is opened as a folder that holds only itself. */
export interface OpenedFolder {
  dir: string;
  /** False: the folder is open for reading only. */
  write: boolean;
}

/**
 * The folder that a yes to a call about this file opens: the file's own. Where that holds the whole project or the
 * user's home, only the file is opened.
 */
export function folderToOpen(file: string, projectDir: string): string {
  if (isFolder(file)) return file;
  const folder = dirname(file);
  return [projectDir, homedir()].some((dir) => isWithin(folder, realOrSame(dir))) ? file : folder;
}

/** The pattern that opens the same for good. */
export function patternToOpen(file: string, projectDir: string): string {
  const folder = folderToOpen(file, projectDir);
  return folder === file && !isFolder(file) ? file : `${folder}/**`;
}

function isFolder(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isDirectory() === true;
}

/** What rules that are always allowed open: the folder before the first wildcard, for writing where it is named whole. */
export function openedByRules(
  rules: readonly Rule[],
  pathTool: (name: string) => { readOnly?: boolean } | undefined,
): OpenedFolder[] {
  return rules.flatMap((rule) => {
    const tool = rule.kind === "pattern" ? pathTool(rule.name) : undefined;
    const root = rule.kind === "pattern" ? rule.path.root : null;
    if (tool === undefined || root === null) return [];
    return [{ dir: realOrSame(root.dir), write: tool.readOnly !== true && root.isWhole }];
  });
}

/** Merges two lists of folders, so that each folder is listed once. */
export function withFolders(
  known: readonly OpenedFolder[],
  more: readonly OpenedFolder[],
): readonly OpenedFolder[] {
  const fresh = more.filter(
    ({ dir, write }) => !known.some((one) => one.dir === dir && (one.write || !write)),
  );
  const dirs = new Set(fresh.map(({ dir }) => dir));
  return fresh.length === 0 ? known : [...known.filter(({ dir }) => !dirs.has(dir)), ...fresh];
}

/** Whether one of these folders holds the path. `write`: only a folder that is open for writing counts. */
export function holds(folders: readonly OpenedFolder[], path: string, write: boolean): boolean {
  return folders.some((folder) => (folder.write || !write) && isWithin(folder.dir, path));
}
