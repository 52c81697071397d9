/** Where the worktree of an agent came from: read by its plans, written by worktrees.ts. */

import { existsSync } from "node:fs";
import { join } from "node:path";
import { z } from "zod";
import { innerPath, realOrSame } from "../../lib/inner-path.ts";
import { readRegularSync } from "../../lib/regular-file.ts";

/** In the user's data folder: the worktrees, by the UUID of their runs. */
export const WORKTREES = "worktrees";
/** Beside it, for each its origin and the repository that knows how it began. No run writes there. */
export const ORIGINS = "worktree-origins";
export const ORIGIN_FILE = "origin.json";
const MAX_BYTES = 64 * 1024;

export const WorktreeOrigin = z.object({
  /** The folder of the project from which its definitions, trust and records come. */
  home: z.string(),
  /** The folder of the project in the worktree. */
  dir: z.string(),
  /** Has the record of its run. */
  dataDir: z.string(),
  /** The tree of git with which it began. */
  begun: z.string(),
});
export type WorktreeOrigin = z.infer<typeof WorktreeOrigin>;

/** The origin of the worktree in which a path lies; null for a path in none. */
export function worktreeAt(userDataDir: string, path: string): WorktreeOrigin | null {
  const inner = innerPath(realOrSame(join(userDataDir, WORKTREES)), path);
  const [uuid = ""] = inner?.split("/") ?? [];
  return uuid === "" ? null : readOrigin(userDataDir, uuid);
}

/** null: this run has no worktree. */
export function readOrigin(userDataDir: string, uuid: string): WorktreeOrigin | null {
  const file = join(userDataDir, ORIGINS, uuid, ORIGIN_FILE);
  return existsSync(file)
    ? WorktreeOrigin.parse(JSON.parse(readRegularSync(file, MAX_BYTES).toString()))
    : null;
}
