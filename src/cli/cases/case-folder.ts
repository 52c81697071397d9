/** A recorded case: a folder with a replay script, the files at its start and those at its end. */

import { cpSync, existsSync, lstatSync, mkdirSync, readdirSync, readlinkSync, type Stats } from "node:fs";
import { basename, join, relative } from "node:path";
import { readRegularSync } from "../../lib/regular-file.ts";
import type { Difference } from "../../protocol/methods.ts";
import { usageError } from "../exit.ts";

export interface CaseFolder {
  /** Relative to the folder of all cases. */
  name: string;
  /** Absolute. */
  dir: string;
  script: string;
}

/** The names of a script, in the order in which they are looked for. */
const SCRIPTS = ["script.yaml", "script.yml", "script.json", "script.jsonl"];
/** The folder with the files at the start, and the folder with those that must be there at the end. */
const START = "files";
const END = "expected";

/** Folders of a project that define its agents, relative to it. Its records are not among them. */
const DEFINITIONS = "agents skills plugins .rnix .claude/agents .claude/skills .agents/skills".split(" ");
const RECORDS = join(".rnix", "data");

const MAX_CASES = 10_000;
const MAX_FILE = 64 * 1024 * 1024;

/** All cases in a folder, by name. The folder may be a case itself. Fails with INVALID when there is none. */
export function findCases(root: string): CaseFolder[] {
  const found: CaseFolder[] = [];
  const look = (dir: string): void => {
    const script = SCRIPTS.find((name) => existsSync(join(dir, name)));
    if (script !== undefined) {
      if (found.length >= MAX_CASES) throw usageError(`${root}: expected at most ${MAX_CASES} cases`);
      found.push({ name: relative(root, dir) || basename(root), dir, script: join(dir, script) });
      return;
    }
    for (const entry of readdirSync(dir, { withFileTypes: true }))
      if (entry.isDirectory() && entry.name !== "node_modules" && entry.name !== ".git")
        look(join(dir, entry.name));
  };
  look(root);
  if (found.length > 0) return found.sort((a, b) => (a.name < b.name ? -1 : 1));
  throw usageError(
    `${root} has no case: a case is a folder with a script.yaml, such as one of \`rnix replay UUID --export FILE\``,
  );
}

/** Fills the empty folder `to`: with the case's files, and with the definitions of the project that they lack. */
export function layOut(found: CaseFolder, project: string, to: string): void {
  const start = join(found.dir, START);
  if (existsSync(start)) cpSync(start, to, { recursive: true, verbatimSymlinks: true });
  // It makes the folder a project of its own.
  mkdirSync(join(to, ".rnix"), { recursive: true });
  for (const name of DEFINITIONS) {
    const from = join(project, name);
    if (!existsSync(from)) continue;
    cpSync(from, join(to, name), {
      recursive: true,
      verbatimSymlinks: true,
      force: false,
      filter: (path) => relative(project, path) !== RECORDS,
    });
  }
}

/** Differences between the files in `expected` and those of the folder. Other files may be there. */
export function fileDifferences(found: CaseFolder, folder: string): Difference[] {
  const end = join(found.dir, END);
  if (!existsSync(end)) return [];
  const names = readdirSync(end, { recursive: true, encoding: "utf8" });
  return names.sort().flatMap((name) => {
    const wanted = contentOf(join(end, name));
    if (wanted === null) return [];
    const came = contentOf(join(folder, name));
    if (came !== null && wanted.equals(came)) return [];
    return {
      kind: "outcome" as const,
      step: null,
      message: came === null ? `${name} is not there` : `${name} has another content`,
      ...(came === null ? { recorded: null, replayed: null } : changedLines(wanted, came)),
    };
  });
}

/** The bytes of a file, or the target of a link; null for anything else. */
function contentOf(path: string): Buffer | null {
  const stats: Stats | undefined = lstatSync(path, { throwIfNoEntry: false });
  if (stats?.isSymbolicLink()) return Buffer.from(`link to ${readlinkSync(path)}`);
  return stats?.isFile() ? readRegularSync(path, MAX_FILE) : null;
}

/** Lines shown of each side. */
const SHOWN_LINES = 20;

/** The part of each text that the other lacks, between their common beginning and end. */
function changedLines(wanted: Buffer, came: Buffer): { recorded: string; replayed: string } {
  const a = wanted.toString().split("\n");
  const b = came.toString().split("\n");
  let first = 0;
  while (first < Math.min(a.length, b.length) && a[first] === b[first]) first++;
  let last = 0;
  while (last < Math.min(a.length, b.length) - first && a.at(-1 - last) === b.at(-1 - last)) last++;
  const part = (lines: string[]): string => {
    const changed = lines.slice(first, lines.length - last);
    const more = changed.length - SHOWN_LINES;
    return [...changed.slice(0, SHOWN_LINES), ...(more > 0 ? [`… ${more} more lines`] : [])].join("\n");
  };
  return { recorded: part(a), replayed: part(b) };
}
