/** Reads the files of a commit that define agents, skills, plugins, servers, settings and instructions. */

import { lstat, mkdir, readdir, readlink, rename, rm, symlink, writeFile } from "node:fs/promises";
import { dirname, join, normalize } from "node:path";
import { type OwnRepository, parseBatch } from "../../kernel/files/git-repository.ts";
import { errnoOf } from "../../lib/error-detail.ts";
import { readRegular } from "../../lib/regular-file.ts";
import { SyscallError } from "../../plugin/index.ts";
import type { ObjectFormat } from "../../store/changes/object-store.ts";
import { TimeSlices } from "../../store/files/time-slice.ts";

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

/** A file of a commit. */
interface TreeFile {
  /** Relative to the tree. */
  path: string;
  kind: "file" | "exec" | "link" | "submodule";
  oid: string;
  size: number;
}

const KINDS: Record<string, TreeFile["kind"]> = {
  "100644": "file",
  "100664": "file",
  "100755": "exec",
  "120000": "link",
  "160000": "submodule",
};
const MAX_LIST_BYTES = 64 * 1024 ** 2;
const BATCH_BYTES = 16 * 1024 ** 2;

/** One folder of a commit, with all below it. */
export class GitTree {
  readonly #own: OwnRepository;
  readonly #oid: string;
  readonly #format: ObjectFormat;

  private constructor(own: OwnRepository, oid: string, format: ObjectFormat) {
    this.#own = own;
    this.#oid = oid;
    this.#format = format;
  }

  /** null when the commit has no such folder. `folder`: relative to the repository, "" for all of it. */
  static async open(
    own: OwnRepository,
    commit: string,
    folder: string,
    format: ObjectFormat,
  ): Promise<GitTree | null> {
    const { exit, output } = await own.run(["rev-parse", "--verify", "--quiet", `${commit}:${folder}`]);
    return exit.code === 0 ? new GitTree(own, output.toString().trim(), format) : null;
  }

  /** All files at and below these paths; without a path, all of the tree. */
  async files(paths: readonly string[] = []): Promise<TreeFile[]> {
    const args = ["ls-tree", "-r", "-l", "-z", "--full-tree", this.#oid, "--", ...paths];
    const { exit, output, cut, errors } = await this.#own.run(args, { most: MAX_LIST_BYTES });
    if (exit.code !== 0 || cut) throw unreadable(cut ? "the list of its files is too long" : errors);
    const slices = new TimeSlices();
    const files: TreeFile[] = [];
    for (const [, mode = "", oid = "", size = "", path = ""] of output
      .toString()
      .matchAll(/(\d{6}) \w+ ([0-9a-f]+) +(\S+)\t([^\0]*)\0/g)) {
      const kind = KINDS[mode];
      if (kind !== undefined && isPlain(path)) files.push({ path, kind, oid, size: Number(size) || 0 });
      await slices.pause();
    }
    return files;
  }

  /** Returns the contents by name. Each is compared with its name. */
  async contents(files: readonly TreeFile[]): Promise<Map<string, Uint8Array>> {
    const found = new Map<string, Uint8Array>();
    const sizes = new Map(files.map(({ oid, size }) => [oid, size]));
    for (const batch of batches([...sizes])) {
      const stdin = batch.map(([oid]) => `${oid}\n`).join("");
      const most = batch.reduce((sum, [, size]) => sum + size + 200, 0);
      const { exit, output, errors } = await this.#own.run(["cat-file", "--batch"], { stdin, most });
      if (exit.code !== 0) throw unreadable(errors);
      for (const [oid, content] of parseBatch(output)) {
        if (oid === nameOf(content, this.#format)) found.set(oid, content);
      }
    }
    if (found.size < sizes.size) {
      const message =
        "--base: contents of this commit are missing here, as in a partial clone. Fetch them: git fetch --refetch --no-filter origin, and the branch.";
      throw new SyscallError("INVALID", message);
    }
    return found;
  }
}

/** The name of a file's content in git. */
export function nameOf(content: Uint8Array, format: ObjectFormat): string {
  const hash = new Bun.CryptoHasher(format);
  return hash.update(`blob ${content.length}\0`).update(content).digest("hex");
}

/** A tree that git did not write may name a folder above. */
function isPlain(path: string): boolean {
  return path.split("/").every((part) => part !== "" && part !== "." && part !== "..");
}

function* batches(sizes: readonly (readonly [string, number])[]): Generator<(readonly [string, number])[]> {
  let batch: (readonly [string, number])[] = [];
  let bytes = 0;
  for (const one of sizes) {
    if (bytes + one[1] > BATCH_BYTES && batch.length > 0) {
      yield batch;
      [batch, bytes] = [[], 0];
    }
    batch.push(one);
    bytes += one[1];
  }
  if (batch.length > 0) yield batch;
}

function unreadable(why: string): SyscallError {
  const message = `--base: git can't read the files of this commit: ${why.trim().slice(0, 300)}. Fetch it again: git fetch origin REF --depth=1`;
  return new SyscallError("INVALID", message);
}
