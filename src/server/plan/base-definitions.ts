/** The files of a commit that define agents, skills, plugins, servers, settings and instructions. */

import { lstat, mkdir, readdir, readlink, rename, rm, symlink, writeFile } from "node:fs/promises";
import { dirname, join, normalize } from "node:path";
import { errnoOf } from "../../lib/error-detail.ts";
import { readRegular } from "../../lib/regular-file.ts";
import { SyscallError } from "../../plugin/index.ts";
import { TimeSlices } from "../../store/files/time-slice.ts";
import type { GitTree, TreeFile } from "./base-tree.ts";

/** Where a project has its definitions, relative to it. */
export const DEFINITIONS = [
  ...["agents", "skills", "plugins", ".rnix", ".mcp.json"],
  ...[".claude/agents", ".claude/skills", ".claude/commands", ".claude/workflows", ".agents/skills"],
];
/** In the run's folder, and in those above it up to the project. */
export const INSTRUCTIONS = ["AGENTS.md", "CLAUDE.md"];
/** Records are no definitions. */
const RECORDS = ".rnix/data/";

/** Maximum files of one folder of `DEFINITIONS`, because other programs also use folders with these names. */
const MAX_FILES = 5_000;
const MAX_BYTES = 64 * 1024 ** 2;
/** Maximum rounds in which the targets of links are added; a target may hold links again. */
const MAX_ROUNDS = 3;
const ATTEMPTS = 3;

interface DefinitionFile {
  path: string;
  kind: "file" | "exec" | "link";
  content: Uint8Array;
}

export interface Definitions {
  files: DefinitionFile[];
  /** What was left out. */
  notices: string[];
}

/** Reads the definitions. `within`: the folder of the run, relative to the project. Without a tree there are none. */
export async function definitionsOf(tree: GitTree | null, within: string): Promise<Definitions> {
  const result: Definitions = { files: [], notices: [] };
  if (tree === null) return result;
  const known = new Map<string, DefinitionFile>();
  let paths = [...DEFINITIONS, ...instructionPaths(within)];
  for (let round = 0; paths.length > 0 && round < MAX_ROUNDS; round++) {
    const found = await tree.files(paths);
    const kept = paths.flatMap((path) => bounded(path, found, result.notices));
    const contents = await tree.contents(kept);
    for (const { path, kind, oid } of kept) {
      const content = contents.get(oid);
      if (content !== undefined && kind !== "submodule") known.set(path, { path, kind, content });
    }
    paths = linkTargets(known, result.notices);
  }
  result.files = [...known.values()].toSorted((a, b) => (a.path < b.path ? -1 : 1));
  return result;
}

function instructionPaths(within: string): string[] {
  const parts = within.split("/").filter(Boolean);
  const folders = [...parts.keys(), parts.length].map((count) => parts.slice(0, count));
  return folders.flatMap((folder) => INSTRUCTIONS.map((name) => [...folder, name].join("/")));
}

/** The files of one path. Too many files, or too large ones, are left out with a notice. */
function bounded(path: string, all: readonly TreeFile[], notices: string[]): TreeFile[] {
  const files = all.filter(
    (file) => (file.path === path || file.path.startsWith(`${path}/`)) && !file.path.startsWith(RECORDS),
  );
  for (const { path: name } of files.filter(({ kind }) => kind === "submodule")) {
    notices.push(`left out of the base: ${name}, a submodule, whose files are in another repository`);
  }
  const own = files.filter(({ kind }) => kind !== "submodule");
  const bytes = own.reduce((sum, { size }) => sum + size, 0);
  if (own.length <= MAX_FILES && bytes <= MAX_BYTES) return own;
  notices.push(
    `left out of the base: ${path}, which has ${own.length} files of ${bytes} bytes (at most ${MAX_FILES} files of ${MAX_BYTES} bytes are taken)`,
  );
  return [];
}

/** Paths that links lead to and that are not known yet. Links that lead out of the project are removed. */
function linkTargets(known: Map<string, DefinitionFile>, notices: string[]): string[] {
  const missing = new Set<string>();
  for (const { path, kind, content } of [...known.values()]) {
    if (kind !== "link") continue;
    const said = Buffer.from(content).toString();
    const target = normalize(join(dirname(path), said)).replace(/\/$/, "");
    if (said.startsWith("/") || target === ".." || target.startsWith("../")) {
      known.delete(path);
      notices.push(`left out of the base: ${path}, a link to outside of the project`);
      continue;
    }
    const through = throughLinks(target, known);
    if (through !== "." && !isKnown(through, known)) missing.add(through);
  }
  return [...missing];
}

/** The path with links among the known files followed, as far as they are known. */
function throughLinks(path: string, known: ReadonlyMap<string, DefinitionFile>): string {
  let at = path;
  for (let links = 0; links < 10; links++) {
    const parts = at.split("/");
    const count = parts.findIndex((_, i) => known.get(parts.slice(0, i + 1).join("/"))?.kind === "link");
    if (count < 0) return at;
    const link = parts.slice(0, count + 1).join("/");
    const said = Buffer.from(known.get(link)?.content ?? []).toString();
    at = normalize(join(dirname(link), said, ...parts.slice(count + 1))).replace(/\/$/, "");
  }
  return at;
}

function isKnown(path: string, known: ReadonlyMap<string, DefinitionFile>): boolean {
  return known.has(path) || [...known.keys()].some((file) => file.startsWith(`${path}/`));
}

/** Makes the folder hold exactly these files. Another kernel may do the same at the same time. */
export async function placeDefinitions(dir: string, { files }: Definitions): Promise<void> {
  for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
    if (await holds(dir, files)) return;
    const fresh = `${dir}.${crypto.randomUUID()}.tmp`;
    try {
      await writeAll(fresh, files);
      await rm(dir, { recursive: true, force: true });
      await rename(fresh, dir);
      return;
    } catch (error) {
      const code = errnoOf(error);
      if (code !== "ENOTEMPTY" && code !== "EEXIST") throw unwritable(dir, error);
    } finally {
      await rm(fresh, { recursive: true, force: true });
    }
  }
  throw new SyscallError("UNAVAILABLE", `--base: ${dir} was changed again and again by another program.`);
}

async function holds(dir: string, files: readonly DefinitionFile[]): Promise<boolean> {
  const slices = new TimeSlices();
  const there = await namesBelow(dir, "");
  if (there === null || there.length !== files.length) return false;
  const expected = new Map(files.map((file) => [file.path, file]));
  for (const path of there) {
    const file = expected.get(path);
    if (file === undefined || !(await isAsExpected(join(dir, path), file))) return false;
    await slices.pause();
  }
  return true;
}

async function isAsExpected(path: string, { kind, content }: DefinitionFile): Promise<boolean> {
  const found = await lstat(path);
  if (found.isSymbolicLink())
    return kind === "link" && (await readlink(path)) === Buffer.from(content).toString();
  if (!found.isFile() || kind === "link" || found.size !== content.length) return false;
  return (
    ((found.mode & 0o100) !== 0) === (kind === "exec") &&
    (await readRegular(path, content.length)).equals(content)
  );
}

/** Files and links, relative; null when there is no such folder. */
async function namesBelow(dir: string, folder: string): Promise<string[] | null> {
  try {
    const entries = await readdir(join(dir, folder), { withFileTypes: true });
    const names: string[] = [];
    for (const entry of entries) {
      const path = folder === "" ? entry.name : `${folder}/${entry.name}`;
      if (entry.isDirectory()) names.push(...((await namesBelow(dir, path)) ?? []));
      else names.push(path);
    }
    return names;
  } catch (error) {
    const code = errnoOf(error);
    if (code === "ENOENT" || code === "ENOTDIR") return null;
    throw error;
  }
}

async function writeAll(dir: string, files: readonly DefinitionFile[]): Promise<void> {
  await mkdir(dir, { mode: 0o700 });
  for (const { path, kind, content } of files) {
    const file = join(dir, path);
    await mkdir(dirname(file), { recursive: true, mode: 0o700 });
    if (kind === "link") await symlink(Buffer.from(content).toString(), file);
    else await writeFile(file, content, { flag: "wx", mode: kind === "exec" ? 0o700 : 0o600 });
  }
}

function unwritable(dir: string, cause: unknown): unknown {
  const code = errnoOf(cause);
  if (code === undefined) return cause;
  return new SyscallError("UNAVAILABLE", `--base: the definitions can't be written to ${dir} (${code}).`, {
    cause,
  });
}
