/** Asks the daemon, inside a run, whether the run may use the files that a command's arguments name. */

import { join, resolve } from "node:path";
import { SyscallError } from "../../plugin/index.ts";
import type { Flags, Parsed } from "../flags.ts";
import { environment, type Io, withSession } from "../io.ts";

/** Files that a command opens, relative to its folder. */
export interface NamedFiles {
  read?: readonly string[];
  written?: readonly string[];
}

/** Descriptors that the command has anyway. */
const OPEN_ALREADY = /^\/dev\/(?:stdin|stdout|stderr|null|fd\/\d+)$/;

/** Fails with PERMISSION inside a run that has no right to one of the files. `more`: those that no flag names. */
export async function requireFiles(
  io: Io,
  flags: Flags,
  { values }: Parsed,
  more: () => Promise<NamedFiles>,
): Promise<void> {
  const named = Object.entries(flags).flatMap(([name, { file }]) =>
    file === undefined ? [] : (values.get(name) ?? []).map((value): [string, string] => [file, value]),
  );
  const { isInsideRun } = await import("../../server/daemon/inside-run.ts");
  if (!isInsideRun(io.env)) return;
  const { read = [], written = [] } = await more();
  const of = (use: string): string[] => named.flatMap(([file, value]) => (file === use ? [value] : []));
  const at = of("read @").flatMap((value) => (value.startsWith("@") ? [value.slice(1)] : []));
  const unlessStdin = of("read -").filter((value) => value !== "-");
  const below = of("write folder").map((folder) => join(folder, "steps"));
  const absolute = (files: string[]): string[] =>
    files.filter((file) => !OPEN_ALREADY.test(file)).map((file) => resolve(io.cwd, file));
  const payload = {
    files: absolute([...read, ...of("read"), ...unlessStdin, ...at]),
    written: absolute([...written, ...of("write"), ...below]),
  };
  if (payload.files.length + payload.written.length === 0) return;
  try {
    await withSession(io, { onlyRunning: true }, async (session) =>
      (await session.connect()).request("require_files", payload),
    );
  } catch (error) {
    if (!(error instanceof SyscallError) || error.code !== "UNAVAILABLE") throw error;
    throw new SyscallError(
      "PERMISSION",
      `inside a run, the run's daemon decides which files a command may use, and it can't be asked: ${error.message}`,
      { cause: error },
    );
  }
}

/** In a project's `.rnix`, for plugins. */
export const TYPES_FOR_EDITORS = ["types/plugin.ts", "tsconfig.json"] as const;

/** Files that a command creates in the project's `.rnix`. */
export async function inSettingsFolder(io: Io, ...names: string[]): Promise<NamedFiles> {
  const { projectOf } = await import("../../server/offline-commands.ts");
  const { dir } = projectOf({ cwd: io.cwd, env: environment(io) });
  return { written: names.map((name) => join(dir, ".rnix", name)) };
}
