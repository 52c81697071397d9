/** The logger: levels, lines and their filter. */

export const LEVELS = ["debug", "info", "warn"] as const;
export type LogLevel = (typeof LEVELS)[number];

/** A log: each line has a level and the part of the program that writes it. */
export type Logger = Readonly<Record<LogLevel, (source: string, text: string) => void>>;

/** A logger over one function that takes every line. */
export function loggerTo(write: (level: LogLevel, source: string, text: string) => void): Logger {
  return {
    debug: (source, text) => write("debug", source, text),
    info: (source, text) => write("info", source, text),
    warn: (source, text) => write("warn", source, text),
  };
}

/** A logger that writes lines of text, from the level `lowest` up. */
export function textLogger(lowest: LogLevel, write: (line: string) => void): Logger {
  return loggerTo((level, source, text) => {
    if (LEVELS.indexOf(level) >= LEVELS.indexOf(lowest)) write(`${level} ${source}: ${text}`);
  });
}
