/** The operation of the tool Grep. */

import type { OpenContext } from "rnix/plugin";
import type { Confinement } from "../paths/confinement.ts";
import type { GrepInput } from "../tools.ts";
import type { GrepRequest } from "./grep-search.ts";
import { searches } from "./searches.ts";

/** Searches the lines of one file, or of all below a folder, in the order of their names. */
export async function grep(
  confinement: Confinement,
  context: OpenContext,
  input: GrepInput,
  signal: AbortSignal,
): Promise<string> {
  const { cwd, process } = context;
  const path = input.path ?? cwd;
  const run = (request: GrepRequest): Promise<string> =>
    searches.run(process.uuid, request, (paths) => confinement.readable(paths), signal);
  const start = await confinement.searchStart(path);
  if (start.stat.isDirectory()) return run({ op: "grep", cwd, input, start: start.path });
  // It is searched through the descriptor that was decided on: descriptors are shared with the Worker.
  const file = await confinement.open(path);
  try {
    return await run({ op: "grep", cwd, input, start: file.path, fd: file.handle.fd });
  } finally {
    await file.handle.close();
  }
}
