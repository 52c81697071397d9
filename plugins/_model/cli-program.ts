/** Finds the program of a CLI. */

import { statSync } from "node:fs";
import { isAbsolute, join } from "node:path";

type Env = Readonly<Record<string, string | undefined>>;

/** The first of these programs that is on the PATH, then the first of these files in the home folder. */
export function findProgram({ PATH = "", HOME }: Env, names: string[], inHome: string[]): string | undefined {
  const onPath = names.flatMap((name) => Bun.which(name, { PATH, cwd: "/" }) ?? []);
  const installed = HOME === undefined ? [] : inHome.map((path) => join(HOME, path));
  return [...onPath, ...installed].find((path) => isAbsolute(path) && isFile(path));
}

export function isFile(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isFile() === true;
}
