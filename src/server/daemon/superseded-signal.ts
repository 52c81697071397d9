/** The signal for a starting daemon that is no longer needed. */

/**
 * Sent to a starting daemon when another one serves the command that started it. Before the daemon has its lock, the
 * signal's default action ends it; afterwards the daemon ignores it, because other clients may use it by then.
 */
export const SUPERSEDED = "SIGUSR2";
