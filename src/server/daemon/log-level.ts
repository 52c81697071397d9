/** Reads the log level from RNIX_LOG. */

import type { Env } from "../../config/environment/paths.ts";
import { LEVELS, type LogLevel } from "../../lib/logger.ts";
import { SyscallError } from "../../plugin/index.ts";

/** The lowest level that is logged, from RNIX_LOG. An unknown word fails with INVALID. */
export function logLevel(env: Env, usual: LogLevel): LogLevel {
  const given = env.RNIX_LOG;
  if (!given) return usual;
  const level = LEVELS.find((known) => known === given);
  if (level) return level;
  throw new SyscallError("INVALID", `RNIX_LOG: expected ${LEVELS.join(", ")}; got "${given}".`);
}
