import { join } from "node:path";

/** Where the daemon writes what nobody is there to read. */
export function daemonLogPath(userDataDir: string): string {
  return join(userDataDir, "daemon.log");
}
