import { closeSync, readFileSync } from "node:fs";
import { release } from "node:os";
import { libc } from "./libc.ts";

/**
 * Looks at the process that connected to this Unix socket, which must be open. "gone": it has ended, and its PID may
 * be another's by now. null where the system does not tell: on macOS, or where it stands in another container.
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
    // Not reaped until now: it was the one that was looked at.
    return pid !== null && pidOf(pidfd) === pid ? seen : "gone";
  } finally {
    closeSync(pidfd);
  }
}

/** Nobody keeps its PID from going to another, but for the few ms until it is looked at. */
function lookUnheld<T>(pid: number | null, look: (pid: number) => T): T | null {
  return pid === null || pid === 0 ? null : look(pid);
}

/** Linux 6.5 and later: the descriptor of a process stays its own, whoever gets its PID. */
function holdsPeers(): boolean {
  const [major = 0, minor = 0] = release().split(".").map(Number);
  return major > 6 || (major === 6 && minor >= 5);
}

/** 0 when it can't be seen from here, null when it was reaped. */
function pidOf(pidfd: number): number | null {
  const pid = /^Pid:\s*(-?\d+)/m.exec(readFileSync(`/proc/self/fdinfo/${pidfd}`, "latin1"))?.[1];
  return pid === undefined || pid === "-1" ? null : Number(pid);
}

/** Its first number is the PID. */
const SO_PEERCRED = 17;
const SO_PEERPIDFD = 77;
