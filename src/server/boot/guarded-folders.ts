/** The folders that no run may write to. */

import { join } from "node:path";
import type { UserPaths } from "../../config/environment/paths.ts";
import { CRON } from "../../cron/cron-folder.ts";
import { ORIGINS } from "../../kernel/files/worktree-origin.ts";
import type { GuardedFolder } from "../../plugin/index.ts";
import { kernelFolders } from "../daemon/kernel-folders.ts";
import { mountLogFolder } from "../daemon/mount-log.ts";
import { BASES } from "../plan/base-folder.ts";
import { recordKeyFile } from "./records.ts";

/** In the user's data folder. Stock plugins that store documents there have folders of their own. */
const OWN = [
  ...["trust", "steps", "index", "spending", "gc", "keys", "plugins", "projects", "memory"],
  ...[BASES, CRON, ORIGINS],
];

/**
 * Folders that no run may write to: with them a run could raise its own rights or falsify its record. The data folder
 * as a whole is not among them, because it contains the demo's project.
 */
export function guardedFolders({ configDir, dataDir }: UserPaths): GuardedFolder[] {
  const { locks, ledgers } = kernelFolders(dataDir);
  const key = { dir: recordKeyFile({ dataDir }), readable: false };
  const own = [locks, ledgers, ...OWN.map((name) => join(dataDir, name))];
  // A server may print its keys.
  const logs = { dir: mountLogFolder(dataDir), readable: false };
  return [{ dir: configDir, readable: false }, key, logs, ...own.map((dir) => ({ dir, readable: true }))];
}
