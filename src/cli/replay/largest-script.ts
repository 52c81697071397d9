/** The size limit of scripts. */

/** Maximum bytes of a replay script; the driver has the same limit (plugins/replay/script-file.ts). */
export const LARGEST_SCRIPT = 16 * 1024 ** 2;
