/** The hidden mode of the binary that gives up rights by Landlock and becomes a program. */

export const LANDLOCK = "__landlock";
