/** Walks the files below a folder without following symlinks. */

import {
  closeSync,
  constants,
  type Dirent,
  lstatSync,
  openSync,
  readdirSync,
  readlinkSync,
  realpathSync,
} from "node:fs";
import { errnoOf, systemError } from "../errors.ts";

/** Skipped, unless a search begins in one of them. */
const SKIPPED = new Set([".git", "node_modules", ".rnix"]);
const MAX_ENTRIES = 200_000;
const OPEN_FOLDER = constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW;
const LINUX = process.platform === "linux";

export interface FoundFile {
  /** The real path of its folder. */
  folder: string;
  name: string;
  /** Relative to where the walk began, with "/". */
  relative: string;
  isLink: boolean;
}

export interface WalkGaps {
  unreadable: number;
  /** It stopped at the limit of entries. */
  stopped: boolean;
}

/** Every file below a real folder, in the order of names. Symlinks are found and never followed. */
export function* walk(folder: string, gaps: WalkGaps): Generator<FoundFile> {
  const open: { path: string; relative: string }[] = [{ path: folder, relative: "" }];
  let entries = 0;
  for (let at = open.pop(); at !== undefined; at = open.pop()) {
    const items = list(at.path, at.relative === "", gaps);
    const folders: typeof open = [];
    for (const item of items) {
      if (++entries > MAX_ENTRIES) {
        gaps.stopped = true;
        return;
      }
      const relative = at.relative + item.name;
      const kind = kindOf(item, at.path);
      if (kind === "folder" && !SKIPPED.has(item.name))
        folders.push({ path: pathIn(at.path, item.name), relative: `${relative}/` });
      if (kind === "file" || kind === "link")
        yield { folder: at.path, name: item.name, relative, isLink: kind === "link" };
    }
    open.push(...folders.reverse());
  }
}

export function pathIn(folder: string, name: string): string {
  return folder === "/" ? `/${name}` : `${folder}/${name}`;
}

/** Lines about what a walk left out, for the end of an answer. */
export function leftOut(gaps: WalkGaps): string[] {
  const lines: string[] = [];
  if (gaps.unreadable > 0) lines.push(`[${gaps.unreadable} folders could not be read.]`);
  if (gaps.stopped) lines.push("[The search stopped: too many files. Search in a folder further down.]");
  return lines;
}

/** Calls `use` with the path of a folder while it is open. A symlink that replaced it is not followed. */
export function inFolder<T>(folder: string, use: (at: string) => T): T | undefined {
  if (!LINUX) {
    const result = use(folder);
    return realpathSync(folder) === folder ? result : undefined;
  }
  const fd = openSync(folder, OPEN_FOLDER);
  try {
    const at = `/proc/self/fd/${fd}`;
    return readlinkSync(at) === folder ? use(at) : undefined;
  } finally {
    closeSync(fd);
  }
}

function list(folder: string, isTop: boolean, gaps: WalkGaps): Dirent[] {
  try {
    const items = inFolder(folder, (at) => readdirSync(`${at}/`, { withFileTypes: true })) ?? [];
    return items.sort((a, b) => (a.name < b.name ? -1 : 1));
  } catch (thrown) {
    if (isTop) throw systemError(thrown, `list ${folder}`);
    if (errnoOf(thrown) !== "ENOENT") gaps.unreadable++;
    return [];
  }
}

type Kind = "file" | "folder" | "link" | "other";

function kindOf(item: Dirent, folder: string): Kind {
  if (item.isFile()) return "file";
  if (item.isDirectory()) return "folder";
  if (item.isSymbolicLink()) return "link";
  if (item.isFIFO() || item.isSocket() || item.isCharacterDevice() || item.isBlockDevice()) return "other";
  // Some file systems do not list the type.
  const info = lstatSync(pathIn(folder, item.name), { throwIfNoEntry: false });
  if (info?.isFile()) return "file";
  if (info?.isSymbolicLink()) return "link";
  return info?.isDirectory() ? "folder" : "other";
}
