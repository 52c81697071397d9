import { SyscallError } from "../../plugin/index.ts";
import { eachLine } from "./append-log.ts";
import { checkSchemaVersion, isOfNewerSchema } from "./document.ts";
import type { FsPort } from "./fs-port.ts";
import { SCHEMA_VERSION } from "./schema-version.ts";

/** Of a log that is about to be added to. INVALID when a newer rnix has written some of it. */
export async function countLines(fs: FsPort, path: string, what: string): Promise<number> {
  const lines = await countIfReadable(fs, path, what);
  if (lines instanceof SyscallError) throw lines;
  return lines;
}

/** The same of one that is not needed: why it can't be read, if so. */
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
      // Most are told by how they begin: there may be very many.
      if (bytes === undefined || OURS.every((byte, at) => bytes[at] === byte)) return true;
      const text = new TextDecoder().decode(bytes);
      if (!isOfNewerSchema(text)) return true;
      newer = text;
      return false;
    });
  } catch (error) {
    // Too many open files are no fault of this one.
    if (!(error instanceof SyscallError) || error.code === "EXHAUSTED") throw error;
    return error;
  }
  if (newer !== undefined) checkSchemaVersion(JSON.parse(newer), `Line ${lines} of ${what}`);
  return lines;
}

const OURS = [...new TextEncoder().encode(`{"v":${SCHEMA_VERSION},`)];
