/** `--record DIR`: keeps the record of a run in one folder, such as an artifact of a pipeline. */

import { mkdirSync } from "node:fs";
import { resolve } from "node:path";
import { usageError } from "../exit.ts";
import { text } from "../flags.ts";
import type { ConnectOptions, Io } from "../io.ts";

/** Of commands that write the record. */
export const RECORD_TO = {
  record: text("keep the record of the run in this folder; rnix log --record DIR reads it anywhere", "DIR", {
    file: "write folder",
  }),
};

/** The outside world of a command whose run is recorded in `dir`; `io` itself without one. */
export function recordingIn(io: Io, dir: string | undefined): Io {
  if (dir === undefined) return io;
  const folder = resolve(io.cwd, dir);
  try {
    mkdirSync(folder, { recursive: true, mode: 0o700 });
  } catch (error) {
    if (!(error instanceof Error && "code" in error)) throw error;
    throw usageError(`--record: ${dir} can't be made: ${error.message}`);
  }
  return { ...io, ...inFolder(io, { ...io.env, RNIX_DATA_DIR: folder }) };
}

function inFolder(io: Io, env: Io["env"]): Pick<Io, "env" | "session"> {
  return { env, session: (o?: ConnectOptions) => io.session({ env, ...o }) };
}
