/** Asks the daemon, inside a run, whether the run may use the files that a command's arguments name. */

import { fstatSync, readlinkSync } from "node:fs";
import { join, resolve } from "node:path";
import { errnoOf } from "../../lib/error-detail.ts";
import { SyscallError } from "../../plugin/index.ts";
import type { Flags, Parsed } from "../flags.ts";
import { environment, type Io, withSession } from "../io.ts";

/** Files that a command opens, relative to its folder. */
export interface NamedFiles {
  read?: readonly string[];
  written?: readonly string[];
}

/** Descriptors that the command has anyway. */
const OPEN_ALREADY = /^\/dev\/(?:stdin|stdout|stderr|null|fd\/(\d+))$/;
const STDIN = "/dev/stdin";

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
  const orStdin = of("read -").map((value) => (value === "-" ? STDIN : value));
  if (readsStdinFile(io, flags, values)) orStdin.push(STDIN);
  const below = of("write folder").map((folder) => join(folder, "steps"));
  const absolute = (files: string[]): string[] =>
    files.filter((file) => !OPEN_ALREADY.test(file)).map((file) => resolve(io.cwd, file));
  const all = [...read, ...of("read"), ...orStdin, ...at];
  const payload = {
    files: [...absolute(all), ...all.flatMap(fileBehind)],
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

/** Whether the command reads stdin, and the shell has opened a file there (`<`). */
function readsStdinFile(io: Io, flags: Flags, values: Parsed["values"]): boolean {
  return "no-stdin" in flags && !values.has("no-stdin") && io.stdin.kind === "file";
}

/** The file that a shell has opened for this descriptor. A here-document is none: it has no name. */
function fileBehind(path: string): string[] {
  const number = path === STDIN ? "0" : OPEN_ALREADY.exec(path)?.[1];
  if (number === undefined) return [];
  try {
    const stat = fstatSync(Number(number));
    return stat.isFile() && stat.nlink > 0 ? [readlinkSync(`/proc/self/fd/${number}`)] : [];
  } catch (thrown) {
    if (errnoOf(thrown) === undefined) throw thrown;
    return []; // It is closed, or the system does not show its name.
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
