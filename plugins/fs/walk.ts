import type { Dirent } from "node:fs";
import { lstat, readdir, realpath } from "node:fs/promises";
import { join } from "node:path";
import { errnoOf, heed, systemError } from "./errors.ts";
import { Pace } from "./pace.ts";

/** Left out unless a search begins in one of them. */
const SKIPPED = new Set([".git", "node_modules", ".rnix"]);
const MAX_ENTRIES = 200_000;
/** What listing one entry costs, in bytes looked at. */
const ENTRY_COST = 512;

interface Found {
  path: string;
  /** Relative to where the walk began, with "/". */
  relative: string;
  isLink: boolean;
}

/** What a walk could not tell. */
export interface WalkNotes {
  unreadable: number;
  /** It ended at the limit of entries. */
  cut: boolean;
}

/** Every file below a real folder, in the order of names. Symlinks are found and never followed. */
export async function* walk(folder: string, notes: WalkNotes, signal: AbortSignal): AsyncGenerator<Found> {
  const pace = new Pace(signal);
  const open: { path: string; relative: string }[] = [{ path: folder, relative: "" }];
  let entries = 0;
  for (let at = open.pop(); at !== undefined; at = open.pop()) {
    const items = await list(at.path, at.relative === "", notes, signal);
    const folders: typeof open = [];
    for (const item of items) {
      if (pace.spent(ENTRY_COST)) await pace.rest();
      if (++entries > MAX_ENTRIES) {
        notes.cut = true;
        return;
      }
      const found = { path: join(at.path, item.name), relative: at.relative + item.name };
      const kind = await kindOf(item, found.path);
      if (kind === "folder" && !SKIPPED.has(item.name)) {
        folders.push({ path: found.path, relative: `${found.relative}/` });
      }
      if (kind === "file" || kind === "link") yield { ...found, isLink: kind === "link" };
    }
    open.push(...folders.reverse());
  }
}

/** What a walk left out, for the end of an answer. */
export function leftOut(notes: WalkNotes): string[] {
  const lines: string[] = [];
  if (notes.unreadable > 0) lines.push(`[${notes.unreadable} folders could not be read.]`);
  if (notes.cut) lines.push("[The search stopped: too many files. Search in a folder further down.]");
  return lines;
}

async function list(
  folder: string,
  isTop: boolean,
  notes: WalkNotes,
  signal: AbortSignal,
): Promise<Dirent[]> {
  heed(signal);
  try {
    const items = await readdir(folder, { withFileTypes: true });
    // A link that has taken the folder's place meanwhile would have led elsewhere.
    if ((await realpath(folder)) !== folder) return [];
    return items.sort((a, b) => (a.name < b.name ? -1 : 1));
  } catch (thrown) {
    const errno = errnoOf(thrown);
    if (isTop) throw systemError(thrown, `list ${folder}`);
    if (errno !== "ENOENT") notes.unreadable++;
    return [];
  }
}

type Kind = "file" | "folder" | "link" | "other";

async function kindOf(item: Dirent, path: string): Promise<Kind> {
  if (item.isFile()) return "file";
  if (item.isDirectory()) return "folder";
  if (item.isSymbolicLink()) return "link";
  if (item.isFIFO() || item.isSocket() || item.isCharacterDevice() || item.isBlockDevice()) return "other";
  // Some file systems don't tell the kind while listing.
  const info = await lstat(path);
  if (info.isFile()) return "file";
  if (info.isSymbolicLink()) return "link";
  return info.isDirectory() ? "folder" : "other";
}
