/** Sends signals to processes. */

/** Sends a signal to a process, or to a group with a negative number. Returns false when there is none. */
export function signal(pid: number, name: NodeJS.Signals | 0): boolean {
  try {
    process.kill(pid, name);
    return true;
  } catch (error) {
    const code = error instanceof Error && "code" in error ? error.code : undefined;
    // EPERM: the process exists, but is another user's now.
    if (code === "EPERM") return true;
    if (code === "ESRCH") return false;
    throw error;
  }
}

/** Asks a process to end. SIGCONT wakes a stopped one, so that it receives the signal. */
export function terminate(pid: number): void {
  if (signal(pid, "SIGTERM")) signal(pid, "SIGCONT");
}
