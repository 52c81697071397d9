/** `--record DIR`: keeps the record of a run in one folder, such as an artifact of a pipeline, and reads it there. */

import { existsSync, mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import type { Target } from "../../protocol/methods.ts";
import { usageError } from "../exit.ts";
import { text } from "../flags.ts";
import { type ConnectOptions, type Io, type Wire, withSession } from "../io.ts";
import { target, withRun } from "../processes/target.ts";

/** Of commands that write the record. */
export const RECORD_TO = {
  record: text("keep the record of the run in this folder; rnix log --record DIR reads it anywhere", "DIR", {
    file: "write folder",
  }),
};

/** Of commands that read it. */
export const RECORD_FROM = {
  record: text("read the run in this folder of --record, here or on another machine", "DIR", {
    file: "read",
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

/** Does `use` for a run in `dir`: the named one, or the last. Without `dir` it is `withRun`. */
export async function withRecordedRun<T>(
  io: Io,
  dir: string | undefined,
  argument: string | undefined,
  use: (wire: Wire, of: Target) => Promise<T>,
): Promise<T> {
  if (dir === undefined) return withRun(io, argument, use);
  const folder = resolve(io.cwd, dir);
  if (!existsSync(join(folder, "steps"))) {
    throw usageError(`--record: ${dir} holds no run: expected a folder that rnix spawn --record has written`);
  }
  // Without the user's own data, only the runs of this folder are found.
  const data = mkdtempSync(join(tmpdir(), "rnix-record-"));
  const env = { ...io.env, RNIX_DATA_DIR: folder, XDG_DATA_HOME: data };
  try {
    const { userPaths } = await import("../../config/environment/paths.ts");
    const keyFolder = userPaths(io.env).dataDir;
    return await withSession(io, { inside: true, env, keyFolder }, async (session) => {
      const wire = await session.connect();
      const named =
        argument === undefined ? await wire.request("last_run", { cwd: io.cwd, record: true }) : null;
      return use(wire, named ? { uuid: named.uuid, cwd: io.cwd } : target(io, argument ?? ""));
    });
  } finally {
    rmSync(data, { recursive: true, force: true });
  }
}

function inFolder(io: Io, env: Io["env"]): Pick<Io, "env" | "session"> {
  return { env, session: (o?: ConnectOptions) => io.session({ env, ...o }) };
}
