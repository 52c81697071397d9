import type { Target } from "../protocol/methods.ts";
import { usageError } from "./exit.ts";
import type { Io } from "./io.ts";

/**
 * Parses the process that an argument names: a PID, a UUID, or the beginning of one. A PID never begins with 0 and a
 * UUIDv7 of today always does, so digits alone are unambiguous.
 */
export function target(io: Io, text: string): Target {
  if (/^[1-9]\d{0,14}$/.test(text)) return { pid: Number(text), cwd: io.cwd };
  if (/^[0-9a-f][0-9a-f-]{1,35}$/i.test(text)) return { uuid: text.toLowerCase(), cwd: io.cwd };
  throw usageError(
    `expected a PID, a UUID or the beginning of one, got ${JSON.stringify(text)}; see rnix ps -a`,
  );
}
