import { libc } from "./libc.ts";

/** RLIMIT_NOFILE on Linux. */
const OPEN_FILES = 7;
/** Where the system does not say: what macOS gives every process. */
const USUAL = 10_240;

/** How many files and sockets this process may have open. The runtime has raised the soft limit to the hard one. */
export function descriptorLimit(): number {
  const limit = libc()?.limit(OPEN_FILES);
  return limit ? Number(limit.soft) : USUAL;
}
