/** Identifies the process at the other end of a Unix socket. */

import { closeSync, readFileSync } from "node:fs";
import { release } from "node:os";
import { libc } from "./libc.ts";

/**
 * Calls `look` with the PID of the process that connected to this open Unix socket. Returns "gone" when that process
 * has ended and its PID may be reused. Returns null when the system does not show it: on macOS, or in another container.
 */
export function socketPeer<T>(fd: number, look: (pid: number) => T): T | "gone" | null {
  const calls = libc();
  if (!calls) return null;
  const pidfd = calls.socketOption(fd, SO_PEERPIDFD);
  if (pidfd === null) return holdsPeers() ? "gone" : lookUnheld(calls.socketOption(fd, SO_PEERCRED), look);
  try {
    const pid = pidOf(pidfd);
    if (pid === 0) return null;
    const seen = pid === null ? null : look(pid);
    // Not reaped until now, so `look` saw this process.
    return pid !== null && pidOf(pidfd) === pid ? seen : "gone";
  } finally {
    closeSync(pidfd);
  }
}

/** Before Linux 6.5: the PID may be reused within the few ms until it is looked at. */
function lookUnheld<T>(pid: number | null, look: (pid: number) => T): T | null {
  return pid === null || pid === 0 ? null : look(pid);
}

/** Linux 6.5 and later gives a descriptor of the process, which stays valid when its PID is reused. */
function holdsPeers(): boolean {
  const [major = 0, minor = 0] = release().split(".").map(Number);
  return major > 6 || (major === 6 && minor >= 5);
}

/** Returns 0 when the process is not visible from this container, null when it was reaped. */
function pidOf(pidfd: number): number | null {
  const pid = /^Pid:\s*(-?\d+)/m.exec(readFileSync(`/proc/self/fdinfo/${pidfd}`, "latin1"))?.[1];
  return pid === undefined || pid === "-1" ? null : Number(pid);
}

/** Its first number is the PID. */
const SO_PEERCRED = 17;
const SO_PEERPIDFD = 77;
