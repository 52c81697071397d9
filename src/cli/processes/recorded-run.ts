/** `--record DIR` of commands that read a run: from the folder in which `rnix spawn --record` has kept it. */

import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import type { Target } from "../../protocol/methods.ts";
import { usageError } from "../exit.ts";
import { text } from "../flags.ts";
import { type Io, type Wire, withSession } from "../io.ts";
import { target, withRun } from "./target.ts";

export const RECORD_FROM = {
  record: text("read the run in this folder of --record, here or on another machine", "DIR", {
    file: "read",
  }),
};

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
