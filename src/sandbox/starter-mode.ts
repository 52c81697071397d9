/** The hidden mode of the binary that starts programs from within namespaces. */

export const STARTER = "__starter";
