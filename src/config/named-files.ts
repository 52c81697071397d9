import { statSync } from "node:fs";
import { basename, resolve, sep } from "node:path";
import { readText, systemCode } from "./file.ts";

/** What a trusted command names inside the project, as far as its words show it: trust binds this as well. */
export interface NamedFiles {
  /** Regular files, absolute. */
  files: string[];
  /** package.json files whose `scripts` the command may run. */
  manifests: string[];
  /** What cannot be bound, so that it is never trusted but for one run with `--trust`. */
  unbound?: string;
}

const NONE: NamedFiles = { files: [], manifests: [] };
const MAX_WORDS = 500;
/** With the one it starts in. */
const MAX_FOLDERS = 8;
/** Programs that run what a file of this name says. */
const RUNNERS: Readonly<Record<string, readonly string[]>> = {
  make: ["Makefile", "makefile", "GNUmakefile"],
  gmake: ["Makefile", "makefile", "GNUmakefile"],
  just: ["justfile", "Justfile", ".justfile"],
};
const PACKAGE_MANAGERS = new Set(["npm", "npx", "pnpm", "yarn", "bun", "bunx"]);
const MANIFEST = "package.json";

/**
 * The same of a line for a shell: its words without quotes, also behind `=`, `<` and the like. Where the line has
 * variables, as `"$PWD/ci/check.sh"`, what is behind the first slash of a word counts as well.
 */
export function filesOfLine(line: string, base: string, projectDir: string): NamedFiles {
  const words = line.split(/[\s;|&()<>`$]+/).map((word) => word.replaceAll(/["'\\]/g, ""));
  const behind = /[$`~]/.test(line)
    ? words.flatMap((word) => (word.includes("/") ? [word.slice(word.indexOf("/") + 1)] : []))
    : [];
  return filesOfWords([...words, ...behind], base, projectDir);
}

/** `base`: where relative words start; they may as well start in a folder that another word names (`cd web`). */
export function filesOfWords(words: readonly string[], base: string, projectDir: string): NamedFiles {
  if (words.length > MAX_WORDS) return unbound(`a command of more than ${MAX_WORDS} words`);
  const isInside = (path: string): boolean => path === projectDir || path.startsWith(`${projectDir}${sep}`);
  const paths = words
    .flatMap((word) => [word, ...word.split("=").slice(1)])
    .filter((word) => word !== "" && !word.includes("\0"));
  const folders = paths
    .map((path) => resolve(base, path))
    .filter((path) => isInside(path) && isA(path, "folder"));
  const bases = [...new Set([base, ...folders])];
  if (bases.length > MAX_FOLDERS) {
    return unbound(`a command that names more than ${MAX_FOLDERS - 1} folders of the project`);
  }
  const programs = words.map((word) => basename(word));
  const read = programs.flatMap((program) => (Object.hasOwn(RUNNERS, program) ? RUNNERS[program] : []) ?? []);
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
  if (parts.length === 0) return NONE;
  return {
    files: [...new Set(parts.flatMap(({ files }) => files))],
    manifests: [...new Set(parts.flatMap(({ manifests }) => manifests))],
    unbound: parts.find((part) => part.unbound !== undefined)?.unbound,
  };
}

function unbound(what: string): NamedFiles {
  return { ...NONE, unbound: what };
}

/** The part of a package.json that a package manager runs; its whole text where it is no JSON. */
export function scriptsOf(manifest: string): unknown {
  const text = readText(manifest);
  if (text === null) return null;
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null ? Reflect.get(value, "scripts") : value;
  } catch {
    return text; // Broken, and it must not change into something that runs.
  }
}

/** The part of a package.json that trust binds. */
export const SCRIPTS = "scripts";

function isA(path: string, what: "file" | "folder"): boolean {
  try {
    const stat = statSync(path, { throwIfNoEntry: false });
    return (what === "file" ? stat?.isFile() : stat?.isDirectory()) === true;
  } catch (error) {
    // A word of a command is seldom a path: too long, through a file, or not to be looked at.
    if (systemCode(error) !== undefined) return false;
    throw error;
  }
}
