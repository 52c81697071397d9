/** The path of the daemon's socket, and its folder. */

import { lstatSync, mkdirSync } from "node:fs";
import { dirname, join } from "node:path";
import { SyscallError } from "../plugin/errors.ts";

/** Creates the folder of the socket with mode 0700 if it does not exist. */
export function makeSocketFolder(socket: string, uid: number): void {
  mkdirSync(dirname(socket), { recursive: true, mode: 0o700 });
  hasSocketFolder(socket, uid);
}

/** Whether it exists. PERMISSION unless only this user can write to it: another's socket would get every run's environment. */
export function hasSocketFolder(socket: string, uid: number): boolean {
  const folder = dirname(socket);
  const stat = lstatSync(folder, { throwIfNoEntry: false });
  if (!stat) return false;
  if (stat.uid === uid && (stat.mode & 0o022) === 0) return true;
  throw new SyscallError(
    "PERMISSION",
    `The socket's folder ${folder} belongs to user ${stat.uid} with mode ${(stat.mode & 0o777).toString(8)}: expected a folder of user ${uid} that no other user can write to. Remove it, or set RNIX_SOCKET to a path in a folder of your own.`,
  );
}

/** The path of the daemon's log. */
export function daemonLogPath(userDataDir: string): string {
  return join(userDataDir, "daemon.log");
}
