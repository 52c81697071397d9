import { eachLine } from "./append-log.ts";
import { checkSchemaVersion, isOfNewerSchema } from "./document.ts";
import type { FsPort } from "./fs-port.ts";
import { SCHEMA_VERSION } from "./schema-version.ts";

/** Of a log that is about to be added to. INVALID when a newer rnix has written some of it. */
export async function countLines(fs: FsPort, path: string, what: string): Promise<number> {
  let lines = 0;
  await eachLine(fs, path, ({ number, bytes }) => {
    lines = number;
    // Most are told by how they begin: there may be very many.
    if (bytes === undefined || OURS.every((byte, at) => bytes[at] === byte)) return true;
    const text = new TextDecoder().decode(bytes);
    if (isOfNewerSchema(text)) checkSchemaVersion(JSON.parse(text), `Line ${number} of ${what}`);
    return true;
  });
  return lines;
}

const OURS = [...new TextEncoder().encode(`{"v":${SCHEMA_VERSION},`)];
