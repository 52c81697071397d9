/** Finds the run that a command is for, and the files of it. */

import { existsSync, mkdtempSync, realpathSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import type { Target } from "../../protocol/methods.ts";
import { usageError } from "../exit.ts";
import { text } from "../flags.ts";
import { type Io, type Wire, withSession, withWire } from "../io.ts";
import { oneLine } from "../output/format.ts";

/** Maximum columns of an intent on stderr. */
const INTENT_WIDTH = 60;

const UUID = /^[0-9a-f][0-9a-f-]{1,35}$/i;
const PID = /^[1-9]\d{0,14}$/;

/** Whether an argument has the form of a PID, a UUID or the beginning of one. */
export function isTarget(text: string): boolean {
  return PID.test(text) || UUID.test(text);
}

/** A PID never begins with 0 and a UUIDv7 of today always does, so digits alone are unambiguous. */
export function target(io: Io, text: string): Target {
  if (PID.test(text)) return { pid: Number(text), cwd: io.cwd };
  if (UUID.test(text)) return { uuid: text.toLowerCase(), cwd: io.cwd };
  throw usageError(
    `expected a PID, a UUID or the beginning of one, got ${JSON.stringify(text)}; see rnix ps -a`,
  );
}

/** The argument's help where it may be left out. */
export const RUN_ARGUMENT = {
  name: "PID",
  about: "a PID, a UUID or the beginning of one; the project's last run by default",
  optional: true,
} as const;

interface Wanted {
  /** The command's action needs a live run: the last live one counts, if any lives. */
  alive?: boolean;
}

/** Does `use` for the named run, or for the project's last one. A malformed argument fails before anything is connected. */
export function withRun<T>(
  io: Io,
  argument: string | undefined,
  use: (wire: Wire, of: Target) => Promise<T>,
  wanted: Wanted = {},
): Promise<T> {
  const named = argument === undefined ? undefined : target(io, argument);
  return withWire(io, async (wire) => use(wire, named ?? (await lastRun(io, wire, wanted))));
}

/** The project's last run. It is named on stderr, so that the user sees which one the command took. */
export async function lastRun(io: Io, wire: Wire, { alive }: Wanted = {}): Promise<Target> {
  const { pid, uuid, intent } = await wire.request("last_run", { cwd: io.cwd, alive });
  io.stderr.write(`process ${pid}  ${uuid}  ${oneLine(intent, INTENT_WIDTH)}\n`);
  return { uuid, cwd: io.cwd };
}

/** The argument that limits a command to some of the files. */
export const CHANGED_FILES = {
  name: "FILE",
  about: "only these files and folders",
  optional: true,
  many: true,
  file: true,
} as const;

/** The run may be left out: then all arguments are files. */
export function runAndFiles(args: readonly string[]): { run: string | undefined; files: string[] } {
  const [first, ...rest] = args;
  if (first === undefined) return { run: undefined, files: [] };
  return isTarget(first) ? { run: first, files: rest } : { run: undefined, files: [...args] };
}

/** The absolute paths, which need not exist. A project's folder has no link in its path. */
export function changedFiles(io: Io, files: readonly string[]): string[] | undefined {
  if (files.length === 0) return undefined;
  const cwd = realpathSync(io.cwd);
  return files.map((file) => resolve(cwd, file));
}

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
