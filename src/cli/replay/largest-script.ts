/** Bytes of a script that is played, as the driver has it (plugins/replay/script-file.ts). */
export const LARGEST_SCRIPT = 16 * 1024 ** 2;
