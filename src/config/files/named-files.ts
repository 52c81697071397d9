/** Finds the project's files that a command line names. */

import { statSync } from "node:fs";
import { basename, resolve, sep } from "node:path";
import { errnoOf } from "../../lib/error-detail.ts";
import { readText } from "./file.ts";

/** The files of the project that the words of a command name. Trust binds their content too. */
export interface NamedFiles {
  /** Regular files, absolute. */
  files: string[];
  /** package.json files whose `scripts` the command may run. */
  manifests: string[];
  /** Why the files cannot be determined. Such a command runs only with `--trust`. */
  unbound?: string;
}

export const NO_FILES: NamedFiles = { files: [], manifests: [] };
const MAX_WORDS = 500;
/** Including the folder it starts in. */
const MAX_FOLDERS = 8;
/** Programs that run the commands in files of these names. */
const MAKEFILES = ["Makefile", "makefile", "GNUmakefile"];
const RUNNERS = new Map([
  ["make", MAKEFILES],
  ["gmake", MAKEFILES],
  ["just", ["justfile", "Justfile", ".justfile"]],
]);
const PACKAGE_MANAGERS = new Set(["npm", "npx", "pnpm", "yarn", "bun", "bunx"]);
const MANIFEST = "package.json";

/**
 * The files that a shell command line names: its words without quotes, also after `=`, `<` and the like. In a line with
 * variables, such as `"$PWD/ci/check.sh"`, the part of a word after its first slash counts too.
 */
export function filesOfLine(line: string, base: string, projectDir: string): NamedFiles {
  const words = line.split(/[\s;|&()<>`$]+/).map((word) => word.replaceAll(/["'\\]/g, ""));
  const behind = /[$`~]/.test(line)
    ? words.flatMap((word) => (word.includes("/") ? [word.slice(word.indexOf("/") + 1)] : []))
    : [];
  return filesOfWords([...words, ...behind], base, projectDir);
}

/** `base`: the folder of relative words. They may also start in a folder that another word names (`cd web`). */
export function filesOfWords(words: readonly string[], base: string, projectDir: string): NamedFiles {
  if (words.length > MAX_WORDS) return { ...NO_FILES, unbound: `a command of more than ${MAX_WORDS} words` };
  const isInside = (path: string): boolean => path === projectDir || path.startsWith(`${projectDir}${sep}`);
  const paths = words
    .flatMap((word) => [word, ...word.split("=").slice(1)])
    .filter((word) => word !== "" && !word.includes("\0"));
  const folders = paths
    .map((path) => resolve(base, path))
    .filter((path) => isInside(path) && isA(path, "folder"));
  const bases = [...new Set([base, ...folders])];
  if (bases.length > MAX_FOLDERS) {
    return {
      ...NO_FILES,
      unbound: `a command that names more than ${MAX_FOLDERS - 1} folders of the project`,
    };
  }
  const programs = words.map((word) => basename(word));
  const read = programs.flatMap((program) => RUNNERS.get(program) ?? []);
  const inBases = (names: readonly string[]): string[] =>
    bases
      .flatMap((from) => names.map((name) => resolve(from, name)))
      .filter((path) => isInside(path) && isA(path, "file"));
  const runsScripts = programs.some((program) => PACKAGE_MANAGERS.has(program));
  return {
    files: [...new Set(inBases([...paths, ...read]))],
    manifests: runsScripts ? inBases([MANIFEST]) : [],
  };
}

export function allNamed(parts: readonly NamedFiles[]): NamedFiles {
  return {
    files: [...new Set(parts.flatMap(({ files }) => files))],
    manifests: [...new Set(parts.flatMap(({ manifests }) => manifests))],
    unbound: parts.find((part) => part.unbound !== undefined)?.unbound,
  };
}

/** The `scripts` of a package.json, which a package manager runs. The whole text when it is not JSON. */
export function scriptsOf(manifest: string): unknown {
  const text = readText(manifest);
  if (text === null) return null;
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null ? Reflect.get(value, "scripts") : value;
  } catch {
    return text; // It must not become runnable without trust.
  }
}

/** The part of a package.json that trust binds. */
export const SCRIPTS = "scripts";

function isA(path: string, what: "file" | "folder"): boolean {
  try {
    const stat = statSync(path, { throwIfNoEntry: false });
    return (what === "file" ? stat?.isFile() : stat?.isDirectory()) === true;
  } catch (error) {
    // Most words are no paths: too long, through a file, or without access.
    if (errnoOf(error) !== undefined) return false;
    throw error;
  }
}
