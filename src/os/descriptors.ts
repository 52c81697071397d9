/** The limit of open files of this process. */

import { libc } from "./libc.ts";

/** RLIMIT_NOFILE on Linux. */
const OPEN_FILES = 7;
/** The default where the limit can't be read: the limit of macOS. */
const USUAL = 10_240;

/** Returns how many files and sockets this process may open. The runtime has raised the soft limit to the hard limit. */
export function descriptorLimit(): number {
  const limit = libc()?.limit(OPEN_FILES);
  return limit ? Number(limit.soft) : USUAL;
}
