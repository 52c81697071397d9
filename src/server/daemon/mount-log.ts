/** The logs of mounts: what the program behind a mount prints, a file of bounded size for each name. */

import { join } from "node:path";
import type { Clock } from "../../lib/clock.ts";
import { DaemonLog } from "./daemon-log.ts";
import { kernelFolders } from "./kernel-locks.ts";

/** `mount`: its type and name, such as "mcp github". */
export function mountLogPath(userDataDir: string, mount: string): string {
  return join(kernelFolders(userDataDir).mountLogs, `${mount.replace(" ", "-")}.log`);
}

/** Appends a line to the log of a mount. Never throws: a line that can't be written is dropped. */
export function mountLog(userDataDir: string, clock: Clock, mount: string, text: string): void {
  try {
    new DaemonLog(mountLogPath(userDataDir, mount), clock).write(text);
  } catch {
    // The size of the file can't be read: the server that printed the line goes on.
  }
}
