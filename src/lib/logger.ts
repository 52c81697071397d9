/** The logger: levels, lines and their filter. */

import { SyscallError } from "../plugin/errors.ts";

export const LEVELS = ["debug", "info", "warn"] as const;
export type LogLevel = (typeof LEVELS)[number];

/** A log: each line has a level and the part of the program that writes it. */
export interface Logger extends Readonly<Record<LogLevel, (source: string, text: string) => void>> {
  /** Lines below this level are dropped. */
  lowest: LogLevel;
}

/** A logger over one function that takes every line, from the level `lowest` up. */
export function loggerTo(
  write: (level: LogLevel, source: string, text: string) => void,
  lowest: LogLevel = "debug",
): Logger {
  const at = (level: LogLevel) => (source: string, text: string) => {
    if (LEVELS.indexOf(level) >= LEVELS.indexOf(lowest)) write(level, source, text);
  };
  return { lowest, debug: at("debug"), info: at("info"), warn: at("warn") };
}

/** A logger that writes lines of text, from the level `lowest` up. */
export function textLogger(lowest: LogLevel, write: (line: string) => void): Logger {
  return loggerTo((level, source, text) => write(`${level} ${source}: ${text}`), lowest);
}

/** The lowest level that is logged, from RNIX_LOG. An unknown word fails with INVALID. */
export function logLevel(env: Readonly<Record<string, string | undefined>>, usual: LogLevel): LogLevel {
  const given = env.RNIX_LOG;
  if (!given) return usual;
  const level = LEVELS.find((known) => known === given);
  if (level) return level;
  throw new SyscallError("INVALID", `RNIX_LOG: expected ${LEVELS.join(", ")}; got "${given}".`);
}
