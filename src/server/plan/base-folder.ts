/** The folder in the user's data folder for the definitions of base revisions. */

export const BASES = "base";
