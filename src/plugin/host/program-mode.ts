/** The hidden mode of the binary that is the process of a plugin. */

export const PLUGIN_PROGRAM = "__plugin";
