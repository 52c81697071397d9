/** Sends a signal to a process, or with a negative number to a group. False when there is none. */
export function signal(pid: number, name: NodeJS.Signals | 0): boolean {
  try {
    process.kill(pid, name);
    return true;
  } catch (error) {
    const code = error instanceof Error && "code" in error ? error.code : undefined;
    // EPERM: there is one, and it is another user's now. It shows as still there.
    if (code === "EPERM") return true;
    if (code === "ESRCH") return false;
    throw error;
  }
}

/** Asks to end. A stopped process must be woken to hear it. */
export function terminate(pid: number): void {
  if (signal(pid, "SIGTERM")) signal(pid, "SIGCONT");
}
