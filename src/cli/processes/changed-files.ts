/** Reads the arguments of commands about the files that a run changed. */

import { realpathSync } from "node:fs";
import { resolve } from "node:path";
import type { Io } from "../io.ts";
import { isTarget } from "./target.ts";

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
