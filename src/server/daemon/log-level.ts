import type { Env } from "../../config/paths.ts";
import { SyscallError } from "../../plugin/index.ts";

const LEVELS = ["debug", "info", "warn"] as const;
export type LogLevel = (typeof LEVELS)[number];

/** RNIX_LOG: from which level on something is logged. INVALID for a word that is none. */
export function logLevel(env: Env, usual: LogLevel): LogLevel {
  const given = env.RNIX_LOG;
  if (!given) return usual;
  const level = LEVELS.find((known) => known === given);
  if (level) return level;
  throw new SyscallError("INVALID", `RNIX_LOG: expected ${LEVELS.join(", ")}; got "${given}".`);
}

export function isLogged(level: LogLevel, from: LogLevel): boolean {
  return LEVELS.indexOf(level) >= LEVELS.indexOf(from);
}
