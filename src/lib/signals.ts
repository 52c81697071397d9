/** The signals of processes. */

export const SIGTERM = 1;
export const SIGKILL = 2;
export const SIGINT = 3;
export const SIGPAUSE = 4;
export const SIGRESUME = 5;
export type Signal = 1 | 2 | 3 | 4 | 5;
