/** Counts the lines of a log and checks their schema version. */

import { SCHEMA_VERSION } from "../../lib/schema-version.ts";
import { SyscallError } from "../../plugin/index.ts";
import { checkSchemaVersion, isOfNewerSchema } from "./document.ts";
import type { FsPort } from "./fs-port.ts";
import { eachLine } from "./read-log.ts";

/** Counts the lines of a log before an append. Fails with INVALID when a newer rnix wrote a line. */
export async function countLines(fs: FsPort, path: string, what: string): Promise<number> {
  const lines = await countIfReadable(fs, path, what);
  if (lines instanceof SyscallError) throw lines;
  return lines;
}

/** Counts the lines of an optional log. Returns the error when it can't be read. */
export async function countIfReadable(
  fs: FsPort,
  path: string,
  what: string,
): Promise<number | SyscallError> {
  let lines = 0;
  let newer: string | undefined;
  try {
    await eachLine(fs, path, ({ number, bytes }) => {
      lines = number;
      // Most lines are recognized by their first bytes, which is faster than parsing.
      if (bytes === undefined || OURS.every((byte, at) => bytes[at] === byte)) return true;
      const text = new TextDecoder().decode(bytes);
      if (!isOfNewerSchema(text)) return true;
      newer = text;
      return false;
    });
  } catch (error) {
    // Too many open files are not a fault of this file.
    if (!(error instanceof SyscallError) || error.code === "EXHAUSTED") throw error;
    return error;
  }
  if (newer !== undefined) checkSchemaVersion(JSON.parse(newer), `Line ${lines} of ${what}`);
  return lines;
}

const OURS = [...new TextEncoder().encode(`{"v":${SCHEMA_VERSION},`)];
