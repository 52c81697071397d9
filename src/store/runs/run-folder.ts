/** Checks that no link leads out of a run's folder before it is written to. */

import { join } from "node:path";
import { SyscallError } from "../../plugin/index.ts";
import { CHANGES, SNAPSHOTS } from "../changes/object-store.ts";
import { isLink } from "../files/data-dir.ts";
import type { FsPort } from "../files/fs-port.ts";
import { RESULTS } from "./blob-store.ts";
import { CLAIM } from "./run-claim.ts";
import { EVENTS, INBOX, INFO, JOURNAL, META, SPILL, STEPS, UNIT_OUTPUT, UNITS } from "./run-files.ts";

/** Files that are written in place, so no other name may share them. Symbolic links in their place are never opened. */
const FILES = [INFO, META, STEPS, JOURNAL, EVENTS, INBOX, CHANGES, UNITS];
const FOLDERS = [RESULTS, SPILL, SNAPSHOTS, UNIT_OUTPUT, "plugins"];

/**
 * Checks an existing run's folder before it is written to. Fails with INVALID when a write would go elsewhere: through
 * a link to a folder, or into a file with a second name.
 */
export function requirePlainRun(dir: string, fs: FsPort): void {
  requireClaimable(dir, fs);
  for (const name of FOLDERS) requireNoLinkAt(join(dir, name), fs);
  for (const name of FILES) requireOneName(join(dir, name), fs);
}

/** Makes the same check for the files that a claim touches. */
export function requireClaimable(dir: string, fs: FsPort): void {
  requireNoLinkAt(dir, fs);
  requireOneName(join(dir, CLAIM), fs);
}

function requireNoLinkAt(path: string, fs: FsPort): void {
  if (fs.stat(path)?.isLink) throw isLink(path);
}

function requireOneName(path: string, fs: FsPort): void {
  const found = fs.stat(path);
  if (found && !found.isFolder && found.names > 1) {
    const message = `${path} has a second name (a hard link), so writing to it would change another file. Replace it with a copy.`;
    throw new SyscallError("INVALID", message);
  }
}
