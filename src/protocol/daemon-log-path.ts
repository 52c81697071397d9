/** The path of the daemon's log. */

import { join } from "node:path";

/** The path of the daemon's log. */
export function daemonLogPath(userDataDir: string): string {
  return join(userDataDir, "daemon.log");
}
