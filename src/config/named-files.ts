import { statSync } from "node:fs";
import { basename, join, resolve, sep } from "node:path";
import { SyscallError } from "../plugin/index.ts";
import { readText, systemCode } from "./file.ts";

/** What a trusted command names inside the project, as far as its words show it: trust binds this as well. */
export interface NamedFiles {
  /** Regular files, absolute. */
  files: string[];
  /** package.json files whose `scripts` the command may run. */
  manifests: string[];
}

const NONE: NamedFiles = { files: [], manifests: [] };
const MAX_WORDS = 2_000;
/** Programs that run what a file of this name says. */
const RUNNERS: Readonly<Record<string, readonly string[]>> = {
  make: ["Makefile", "makefile", "GNUmakefile"],
  gmake: ["Makefile", "makefile", "GNUmakefile"],
  just: ["justfile", "Justfile", ".justfile"],
};
const PACKAGE_MANAGERS = new Set(["npm", "npx", "pnpm", "yarn", "bun", "bunx"]);
const MANIFEST = "package.json";

/** The same of a line for a shell: its words without quotes, also behind `=`, `<` and the like. */
export function filesOfLine(line: string, base: string, projectDir: string): NamedFiles {
  return filesOfWords(
    line.split(/[\s;|&()<>`$]+/).map((word) => word.replaceAll(/["'\\]/g, "")),
    base,
    projectDir,
  );
}

/** `base`: where relative words start. */
export function filesOfWords(words: readonly string[], base: string, projectDir: string): NamedFiles {
  if (words.length > MAX_WORDS) {
    throw new SyscallError(
      "INVALID",
      `Expected a command of at most ${MAX_WORDS} words, got ${words.length}.`,
    );
  }
  const candidates = words.flatMap((word) => [word, ...word.split("=").slice(1)]);
  const programs = words.map((word) => basename(word));
  const read = programs.flatMap((program) => (Object.hasOwn(RUNNERS, program) ? RUNNERS[program] : []) ?? []);
  const files = [...candidates, ...read]
    .filter((word) => word !== "" && !word.includes("\0"))
    .map((word) => resolve(base, word))
    .filter((file) => file.startsWith(`${projectDir}${sep}`) && isFile(file));
  const manifest = join(base, MANIFEST);
  const runsScripts = programs.some((program) => PACKAGE_MANAGERS.has(program)) && isFile(manifest);
  return {
    files: [...new Set(files)],
    manifests: runsScripts ? [manifest] : [],
  };
}

export function allNamed(parts: readonly NamedFiles[]): NamedFiles {
  if (parts.length === 0) return NONE;
  return {
    files: [...new Set(parts.flatMap(({ files }) => files))],
    manifests: [...new Set(parts.flatMap(({ manifests }) => manifests))],
  };
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

function isFile(path: string): boolean {
  try {
    return statSync(path, { throwIfNoEntry: false })?.isFile() === true;
  } catch (error) {
    // A word of a command is seldom a path: too long, through a file, or not to be looked at.
    if (systemCode(error) !== undefined) return false;
    throw error;
  }
}
