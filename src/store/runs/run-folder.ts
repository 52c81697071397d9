import { join } from "node:path";
import { SyscallError } from "../../plugin/index.ts";
import { isLink } from "../files/data-dir.ts";
import type { FsPort } from "../files/fs-port.ts";
import { RESULTS } from "./blob-store.ts";
import { INBOX } from "./inbox-log.ts";
import { CLAIM } from "./run-claim.ts";
import { EVENTS, INFO, JOURNAL, META, SPILL, STEPS } from "./run-writer.ts";

/** What is written to in its place, and so must be the run's alone. A link in their place is never opened. */
const FILES = [INFO, META, STEPS, JOURNAL, EVENTS, INBOX];
const FOLDERS = [RESULTS, SPILL, "plugins"];

/**
 * Before a run that is there is written to. INVALID when what stands in its folder would have it written elsewhere: a
 * link to a folder, or a file that has another name as well.
 */
export function requirePlainRun(dir: string, fs: FsPort): void {
  requireClaimable(dir, fs);
  for (const name of FOLDERS) requireNoLinkAt(join(dir, name), fs);
  for (const name of FILES) requireOneName(join(dir, name), fs);
}

/** The same before it is claimed. */
export function requireClaimable(dir: string, fs: FsPort): void {
  requireNoLinkAt(dir, fs);
  requireOneName(join(dir, CLAIM), fs);
}

function requireNoLinkAt(path: string, fs: FsPort): void {
  if (fs.stat(path)?.isLink) throw isLink(path);
}

function requireOneName(path: string, fs: FsPort): void {
  const found = fs.stat(path);
  if (found && !found.isFolder && found.names > 1) throw shared(path);
}

function shared(path: string): SyscallError {
  return new SyscallError(
    "INVALID",
    `${path} has another name as well (a hard link), so what is written to it would change another file. Copy it to a file of its own.`,
  );
}
