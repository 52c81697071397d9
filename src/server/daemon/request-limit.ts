/** The limit on HTTP requests that the runtime and the kernel have open. */

/**
 * How many HTTP requests the runtime has under way at the same time. Bun reads the variable before our first line
 * runs, and delays every request above the limit without an error.
 */
export const REQUESTS_VARIABLE = "BUN_CONFIG_MAX_HTTP_REQUESTS";

export const DAEMON_REQUESTS = 5120;

const USUAL = 256;
const LARGEST = 65_535;
/** Reserved for requests other than to models: MCP servers, and the search for local model servers. */
const OTHERS = 1024;

/**
 * How many model requests a kernel may have open: below the runtime's limit, and at most a quarter of the descriptors,
 * of which records, programs and connections need the rest.
 */
export function modelRequestLimit(
  env: Readonly<Record<string, string | undefined>>,
  descriptors: number,
): number {
  const set = Number(env[REQUESTS_VARIABLE]);
  const all = Number.isInteger(set) && set >= 1 && set <= LARGEST ? set : USUAL;
  const reserve = Math.min(OTHERS, Math.ceil(all / 4));
  return Math.max(1, Math.min(all - reserve, Math.floor(descriptors / 4)));
}
