/**
 * How a daemon is told that another serves whoever has started it. It ends one that has not taken its place yet, by the
 * system's own hand; one that has ignores it, as others may be with it by now.
 */
export const SUPERSEDED = "SIGUSR2";
