/**
 * Starts git: the only place that does.
 *
 * git runs on a private repository with a private configuration. Of the user's repository it gets a copy of the index,
 * the ignore patterns and, to read contents, the folder of objects. So nothing that can be written into `.git`, an
 * attributes file, the environment or a submodule names a program, a remote or another configuration.
 */

import { constants } from "node:fs";
import { access, type FileHandle, mkdir, open, realpath, rm, stat, writeFile } from "node:fs/promises";
import { dirname, isAbsolute, join, resolve } from "node:path";
import { errnoOf } from "../../lib/error-detail.ts";
import { isWithin } from "../../lib/inner-path.ts";
import { openRegular, readRegular, unlessSystemError } from "../../lib/regular-file.ts";
import type { Child, Data, ExecRequest, ExitInfo } from "../../plugin/index.ts";
import type { ObjectFormat } from "../../store/changes/object-store.ts";
import { readToEnd } from "./run-program.ts";

const TIMEOUT_MS = 10_000;
/** For a stopped run: the caller waits for its end. */
const STOPPED_TIMEOUT_MS = 2_000;
const MAX_OUTPUT_BYTES = 4 * 1024 ** 2;
const MAX_ERROR_BYTES = 64 * 1024;
const MAX_INDEX_BYTES = 256 * 1024 ** 2;
/** Of `config`, `commondir`, a `.git` file and ignore files. */
const MAX_TEXT_BYTES = 1024 ** 2;
const COPY_BYTES = 1024 ** 2;
/** git follows folders of objects that name others this deep. */
const MAX_ALTERNATES_DEPTH = 5;
const MAX_ALTERNATES = 100;

export interface GitOptions {
  /** The folder in which git runs. */
  dir: string;
  /** Folders in which no program counts as git: the run may write there. */
  untrusted: readonly string[];
  /** The run's environment: PATH to find git, HOME to find the user's ignore patterns. */
  env: Readonly<Record<string, string>>;
  /** For a private repository during a call. No tool of a run writes there, and git does not list it. */
  scratch: string;
  /** Starts a program with `request.env` as its whole environment. */
  exec(request: ExecRequest): Promise<Child>;
}

export interface CallOptions {
  signal?: AbortSignal;
  /** Within 2 s. */
  soon?: boolean;
}

/** The parts of the user's repository that are used. */
export interface Repository {
  root: string;
  /** The text of `info/exclude`, of `info/attributes`, and of the configuration. */
  exclude: string | null;
  attributes: string | null;
  config: string | null;
  format: ObjectFormat;
  /** The folder of its objects, absolute. */
  objects: string;
  /** The folder of its HEAD, and the one of its references: another in a linked work tree. Absolute. */
  gitDir: string;
  commonDir: string;
  /** Stays the same file when git replaces the index; null for a repository that has none yet. */
  index: { handle: FileHandle; mtimeMs: number } | null;
}

/** What a private repository is made of. */
interface OwnParts {
  format: ObjectFormat;
  index?: Repository["index"];
  /** Folders of objects that git may read. */
  objects?: readonly string[];
  /** The work tree; absent: git gets none. */
  root?: string;
  /** git takes every file for binary. */
  binary?: boolean;
}

interface GitResult {
  exit: ExitInfo;
  output: Buffer;
  /** git has printed more than it may. */
  cut: boolean;
  errors: string;
}

/** A git program that no run can have written. */
export class Git {
  readonly #program: string;
  readonly #o: GitOptions;

  private constructor(program: string, o: GitOptions) {
    this.#program = program;
    this.#o = o;
  }

  /** Returns null when there is none. */
  static async find(o: GitOptions): Promise<Git | null> {
    const program = await findGit(o.env.PATH ?? "/usr/bin:/bin", o.untrusted);
    return program === null ? null : new Git(program, o);
  }

  /** Makes a private repository for the duration of `work`. */
  async within<T>(parts: OwnParts, work: (own: OwnRepository) => Promise<T>): Promise<T> {
    const dir = join(this.#o.scratch, `git-${crypto.randomUUID()}`);
    try {
      await makeOwn(dir, parts);
      const run: OwnRepository["run"] = (args, o) => this.#run(dir, parts.root, args, o);
      return await work({ dir, run });
    } finally {
      await rm(dir, { recursive: true, force: true });
    }
  }

  async #run(
    dir: string,
    root: string | undefined,
    args: readonly string[],
    {
      env,
      usersConfiguration,
      stdin,
      signal,
      soon = false,
      timeoutMs = TIMEOUT_MS,
      most = MAX_OUTPUT_BYTES,
    }: RunOptions = {},
  ): Promise<GitResult> {
    const child = await this.#o.exec({
      argv: [this.#program, ...args],
      cwd: root === undefined ? dir : this.#o.dir,
      env: {
        ...(usersConfiguration
          ? withUsers(isolatedEnv(dir, root), usersConfiguration)
          : isolatedEnv(dir, root)),
        ...env,
        GIT_DIR: dir,
        PATH: `${dirname(this.#program)}:/usr/bin:/bin`,
      },
      timeoutMs: soon ? STOPPED_TIMEOUT_MS : timeoutMs,
      stdin,
      // All of it is read while git runs.
      maxOutput: 0,
      life: "call",
    });
    return collect(child, most, signal);
  }
}

/** A private repository, which its owner removes. */
export interface OwnRepository {
  /** Its folder. */
  dir: string;
  run(args: readonly string[], o?: RunOptions): Promise<GitResult>;
}

interface RunOptions extends CallOptions {
  /** Variables in addition. */
  env?: Record<string, string>;
  /** git reads the user's own configuration, which these variables lead to. */
  usersConfiguration?: Record<string, string>;
  stdin?: Data;
  /** Maximum bytes of output. */
  most?: number;
  timeoutMs?: number;
}

async function collect(child: Child, most: number, signal?: AbortSignal): Promise<GitResult> {
  const output: Uint8Array[] = [];
  const errors: Uint8Array[] = [];
  let bytes = 0;
  let errorBytes = 0;
  const take = (fd: number, data: Uint8Array): void => {
    if (fd === 2) {
      if (errorBytes < MAX_ERROR_BYTES) errors.push(data);
      errorBytes += data.length;
    } else {
      bytes += data.length;
      if (bytes <= most) output.push(data);
    }
  };
  return {
    exit: await readToEnd(child, take, signal),
    output: Buffer.concat(output),
    cut: bytes > most,
    errors: Buffer.concat(errors).toString(),
  };
}

/** Makes a repository without commits. Its configuration names no program; its index is the user's. */
async function makeOwn(
  dir: string,
  { format, index, objects = [], binary = false }: OwnParts,
): Promise<void> {
  const readable = await Promise.all(objects.map(async (one) => ((await isBounded(one)) ? [one] : [])));
  await mkdir(join(dir, "objects/info"), { recursive: true, mode: 0o700 });
  await mkdir(join(dir, "info"), { mode: 0o700 });
  await Promise.all([
    mkdir(join(dir, "refs"), { mode: 0o700 }),
    writeFile(join(dir, "HEAD"), "ref: refs/heads/none\n"),
    writeFile(join(dir, "config"), configuration(format)),
    // Files are taken as they are, whatever attributes the work tree has.
    writeFile(
      join(dir, "info/attributes"),
      `* -text -filter -ident -working-tree-encoding !merge ${binary ? "-" : "!"}diff\n`,
    ),
    objects.length > 0 &&
      writeFile(
        join(dir, "objects/info/alternates"),
        readable
          .flat()
          .map((one) => `${one}\n`)
          .join(""),
      ),
    index && copyIndex(index.handle, index.mtimeMs, join(dir, "index")),
  ]);
}

/**
 * A folder of objects can name others in `info/alternates`, which git reads whole, also of a FIFO or a device without
 * end. Such a folder is left out.
 */
async function isBounded(
  objects: string,
  depth = MAX_ALTERNATES_DEPTH,
  seen = new Set<string>(),
): Promise<boolean> {
  if (seen.has(objects) || depth < 0) return true;
  if (seen.add(objects).size > MAX_ALTERNATES) return false;
  let text: string;
  try {
    text = (await readRegular(join(objects, "info/alternates"), MAX_TEXT_BYTES)).toString();
  } catch (error) {
    // git can't open it, either.
    if (errnoOf(error) !== undefined) return true;
    return false;
  }
  for (const line of text.split("\n").filter((one) => one !== "" && !one.startsWith("#"))) {
    // A quoted name could be another one than it seems.
    if (line.startsWith('"') || !(await isBounded(resolve(objects, line), depth - 1, seen))) return false;
  }
  return true;
}

function isolatedEnv(own: string, root: string | undefined): Record<string, string> {
  return {
    LC_ALL: "C",
    HOME: own,
    XDG_CONFIG_HOME: own,
    ...(root !== undefined && { GIT_WORK_TREE: root }),
    GIT_CONFIG_NOSYSTEM: "1",
    GIT_CONFIG_GLOBAL: "/dev/null",
    GIT_ATTR_NOSYSTEM: "1",
    GIT_LITERAL_PATHSPECS: "1",
    GIT_OPTIONAL_LOCKS: "0",
    GIT_NO_LAZY_FETCH: "1",
    GIT_NO_REPLACE_OBJECTS: "1",
    GIT_ALLOW_PROTOCOL: "",
    GIT_TERMINAL_PROMPT: "0",
  };
}

function withUsers(env: Record<string, string>, users: Record<string, string>): Record<string, string> {
  const { GIT_CONFIG_GLOBAL: _, XDG_CONFIG_HOME: __, ...rest } = env;
  return { ...rest, ...users };
}

/** `sparseCheckout` lists files outside of a sparse checkout too. */
function configuration(format: ObjectFormat): string {
  const mac = process.platform === "darwin" ? ["ignoreCase = true", "precomposeUnicode = true"] : [];
  const core = [
    ...["repositoryFormatVersion = 1", "bare = false", "fsmonitor = false", "untrackedCache = false"],
    ...["hooksPath = /dev/null", "attributesFile = /dev/null", "autocrlf = false", "quotePath = false"],
    // What git writes here is never the only copy of anything.
    ...["fsync = none", "looseCompression = 1"],
    ...["sparseCheckout = true", "sparseCheckoutCone = false", ...mac],
  ];
  return `[core]\n\t${core.join("\n\t")}\n[protocol]\n\tallow = never\n[extensions]\n\tobjectFormat = ${format}\n`;
}

/** The root of the work tree in which a folder lies; null when it lies in none. */
export async function rootOf(dir: string): Promise<string | null> {
  for (let at = dir; ; at = dirname(at)) {
    if (await isThere(join(at, ".git"))) return at;
    if (dirname(at) === at) return null;
  }
}

/** Linked work trees and submodules have a file `.git` that names the folder. null for anything else. */
export async function openRepository(root: string): Promise<Repository | null> {
  const gitDir = await gitDirOf(join(root, ".git"));
  if (gitDir === null) return null;
  const shared = (await readIfThere(join(gitDir, "commondir")))?.trim();
  const commonDir = shared ? resolve(gitDir, shared) : gitDir;
  const [config = null, exclude = null, attributes = null] = await Promise.all(
    ["config", "info/exclude", "info/attributes"].map((name) => readIfThere(join(commonDir, name))),
  );
  const format = /^\s*objectformat\s*=\s*"?sha256/im.test(config ?? "") ? "sha256" : "sha1";
  const objects = join(commonDir, "objects");
  return {
    ...{ root, exclude, attributes, config, format, objects, gitDir, commonDir },
    index: await openIndex(join(gitDir, "index")),
  };
}

async function gitDirOf(path: string): Promise<string | null> {
  if ((await stat(path)).isDirectory()) return path;
  const named = /^gitdir: (.+?)\s*$/.exec((await readRegular(path, MAX_TEXT_BYTES)).toString())?.[1];
  return named === undefined ? null : resolve(dirname(path), named);
}

export async function openIndex(path: string): Promise<Repository["index"]> {
  if (!(await isThere(path))) return null;
  const { handle, stat: found } = await openRegular(path);
  if (found.size <= MAX_INDEX_BYTES) return { handle, mtimeMs: found.mtimeMs };
  await handle.close();
  throw new Error(`${path} has ${found.size} bytes, more than ${MAX_INDEX_BYTES}`);
}

/** Keeps the index's time: git compares contents of files written since then. */
async function copyIndex(from: FileHandle, mtimeMs: number, to: string): Promise<void> {
  const handle = await open(to, "wx", 0o600);
  try {
    const buffer = Buffer.allocUnsafe(COPY_BYTES);
    for (let at = 0; at <= MAX_INDEX_BYTES; ) {
      const { bytesRead } = await from.read(buffer, 0, buffer.length, at);
      if (bytesRead === 0) break;
      const { bytesWritten } = await handle.write(buffer, 0, bytesRead, at);
      at += bytesWritten;
    }
    const second = Math.floor(mtimeMs / 1000);
    await handle.utimes(second, second);
  } finally {
    await handle.close();
  }
}

/** Returns the first git on the PATH that no run can have written. */
async function findGit(path: string, untrusted: readonly string[]): Promise<string | null> {
  const folders = await Promise.all(untrusted.map((folder) => realpath(folder).catch(() => folder)));
  for (const folder of path.split(":").filter(isAbsolute)) {
    const program = join(folder, "git");
    try {
      await access(program, constants.X_OK);
      if (!(await stat(program)).isFile()) continue;
      const places = [await realpath(folder), await realpath(program), program];
      if (!places.some((place) => folders.some((own) => isWithin(own, place)))) return program;
    } catch (thrown) {
      // Missing or not executable: try the next folder, as a shell does.
      if (errnoOf(thrown) === undefined) throw thrown;
    }
  }
  return null;
}

async function isThere(path: string): Promise<boolean> {
  return (await unlessSystemError(stat(path))) !== null;
}

/** Returns null when the file is missing or not readable. Fails when it is no regular file. */
export async function readIfThere(path: string): Promise<string | null> {
  return (await unlessSystemError(readRegular(path, MAX_TEXT_BYTES)))?.toString() ?? null;
}
