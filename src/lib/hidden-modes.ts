/** The hidden modes of the binary: its first argument where Rnix starts itself. */

/** The bridge of a run's network. */
export const BRIDGE = "__network-bridge";
/** Gives up rights by Landlock and becomes a program. */
export const LANDLOCK = "__landlock";
/** Starts programs from within namespaces. */
export const STARTER = "__starter";
