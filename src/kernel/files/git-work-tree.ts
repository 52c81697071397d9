/**
 * Lists the files of a git work tree that differ from its index: the only place that starts git.
 *
 * git runs on a repository of ours, with a configuration of ours and no objects. Of the user's repository it
 * gets a copy of the index and the ignore patterns. So nothing that can be written into `.git`, an attributes
 * file, the environment or a submodule names a program, a remote or another configuration.
 */

import { constants } from "node:fs";
import { access, type FileHandle, lstat, mkdir, open, realpath, rm, stat, writeFile } from "node:fs/promises";
import { dirname, isAbsolute, join, relative, resolve } from "node:path";
import { errnoOf, openRegular, readRegular } from "../../lib/regular-file.ts";
import type { Child, ExecRequest } from "../../plugin/index.ts";
import { runProgram } from "./run-program.ts";

const TIMEOUT_MS = 10_000;
/** For a stopped run: the caller waits for its end. */
const STOPPED_TIMEOUT_MS = 2_000;
const MAX_OUTPUT_BYTES = 4 * 1024 ** 2;
const MAX_INDEX_BYTES = 256 * 1024 ** 2;
/** Of `config`, `commondir`, a `.git` file and ignore files. */
const MAX_TEXT_BYTES = 1024 ** 2;
const COPY_BYTES = 1024 ** 2;
/** Maximum files that are read in parallel. */
const STATS_AT_ONCE = 64;

export interface WorkTreeOptions {
  /** Files below this folder are listed, by their path relative to it. */
  dir: string;
  /** Folders in which no program counts as git: the run may write there. */
  untrusted: readonly string[];
  /** The run's environment: PATH to find git, HOME to find the user's ignore patterns. */
  env: Readonly<Record<string, string>>;
  /** For a repository of ours during a call. No tool of a run writes there, and git does not list it. */
  scratch: string;
  /** Starts a program with `request.env` as its whole environment. */
  exec(request: ExecRequest): Promise<Child>;
}

interface ListOptions {
  signal?: AbortSignal;
  soon?: boolean;
}

/** When git is ended, if it has not answered. */
interface Deadline {
  signal: AbortSignal | undefined;
  timeoutMs: number;
}

/** A listing: a version by file, such as its modification time, that changes with its content. */
export interface Listing {
  files: Map<string, string>;
  /** When each was changed last, in ms, as its file system says. A deleted file has none. */
  changedAt: Map<string, number>;
  /** False when git could not read everything. */
  complete: boolean;
}

/**
 * A work tree with its index as it was at `open`. Listings made later compare with the same index, so what is
 * committed or staged meanwhile is still listed.
 */
export class WorkTree {
  readonly #o: WorkTreeOptions;
  readonly #repository: Repository;
  readonly #git: string;
  readonly #userIgnore: UserIgnore;
  #ignored: string | undefined;

  private constructor(o: WorkTreeOptions, repository: Repository, git: string, userIgnore: UserIgnore) {
    this.#o = o;
    this.#repository = repository;
    this.#git = git;
    this.#userIgnore = userIgnore;
  }

  /** Returns null where there is no work tree or no git. The caller closes it. */
  static async open(o: WorkTreeOptions): Promise<WorkTree | null> {
    const root = await rootOf(o.dir);
    if (root === null) return null;
    const [git, ignore] = await Promise.all([
      findGit(o.env.PATH ?? "/usr/bin:/bin", o.untrusted),
      userIgnore(o.env),
    ]);
    const repository = git && (await openRepository(root));
    return repository ? new WorkTree(o, repository, git, ignore) : null;
  }

  /** Lists the files that are not ignored and differ from the index; null when git fails. `soon`: within 2 s. */
  async list({ signal, soon = false }: ListOptions = {}): Promise<Listing | null> {
    const until: Deadline = { signal, timeoutMs: soon ? STOPPED_TIMEOUT_MS : TIMEOUT_MS };
    const own = join(this.#o.scratch, `git-${crypto.randomUUID()}`);
    try {
      await this.#makeOwn(own);
      this.#ignored ??= await this.#ignorePatterns(own, until);
      await writeFile(join(own, "ignored"), this.#ignored);
      const { exit, output, errors } = await this.#run(
        own,
        [...LIST, `--exclude-from=${join(own, "ignored")}`],
        isolatedEnv(own, this.#repository.root),
        until,
      );
      if (exit.code !== 0 || output.length >= MAX_OUTPUT_BYTES) return null;
      return { ...(await this.#states(output)), complete: errors === "" };
    } finally {
      await rm(own, { recursive: true, force: true });
    }
  }

  async close(): Promise<void> {
    await this.#repository.index?.handle.close();
  }

  /** Makes a repository without commits. Its configuration names no program; its index is the user's. */
  async #makeOwn(own: string): Promise<void> {
    const { sha256, index } = this.#repository;
    await mkdir(join(own, "objects"), { recursive: true, mode: 0o700 });
    await Promise.all([
      mkdir(join(own, "refs"), { mode: 0o700 }),
      writeFile(join(own, "HEAD"), "ref: refs/heads/none\n"),
      writeFile(join(own, "config"), configuration(sha256)),
      index && copyIndex(index.handle, index.mtimeMs, join(own, "index")),
    ]);
  }

  /** Returns them in git's order: the user's own, those of `info/exclude`, then ours. */
  async #ignorePatterns(own: string, until: Deadline): Promise<string> {
    const { root, exclude } = this.#repository;
    const parts = [await this.#usersOwn(own, until), exclude];
    const scratch = relative(root, this.#o.scratch);
    if (isWithin(root, this.#o.scratch)) parts.push(`/${scratch.replace(/[*?[\\]/g, "\\$&")}/`);
    return parts.map((part) => `${part ?? ""}\n`).join("");
  }

  /** git reads the user's configuration only to find the file of ignore patterns, and only if it may name one. */
  async #usersOwn(own: string, until: Deadline): Promise<string | null> {
    const { text, mayBeNamed } = this.#userIgnore;
    if (!mayBeNamed) return text;
    const { GIT_CONFIG_GLOBAL: _, XDG_CONFIG_HOME: __, ...env } = isolatedEnv(own, this.#repository.root);
    const { HOME = "/", XDG_CONFIG_HOME } = this.#o.env;
    const asked = ["config", "--null", "--type=path", "--get", "core.excludesFile"];
    const { exit, output } = await this.#run(
      own,
      asked,
      { ...env, HOME, ...(XDG_CONFIG_HOME && { XDG_CONFIG_HOME }) },
      until,
    );
    const named = output.replace(/\0$/, "");
    if (exit.code !== 0) return text;
    return isAbsolute(named) && named !== "/dev/null" ? readIfThere(named) : null;
  }

  #run(
    own: string,
    args: readonly string[],
    env: Record<string, string>,
    { signal, timeoutMs }: Deadline,
  ): ReturnType<typeof runProgram> {
    return runProgram(
      this.#o.exec,
      {
        argv: [this.#git, ...args],
        cwd: this.#o.dir,
        env: { ...env, GIT_DIR: own, PATH: `${dirname(this.#git)}:/usr/bin:/bin` },
        timeoutMs,
        maxOutput: MAX_OUTPUT_BYTES,
        life: "call",
      },
      MAX_OUTPUT_BYTES,
      signal,
      { apart: true },
    );
  }

  /** Parses `T path\0…`. git lists a deleted file twice: as deleted and as changed. */
  async #states(output: string): Promise<Pick<Listing, "files" | "changedAt">> {
    const paths = new Set(output.split("\0").flatMap((entry) => (entry === "" ? [] : [entry.slice(2)])));
    const files: Listing["files"] = new Map();
    const changedAt: Listing["changedAt"] = new Map();
    const left = [...paths];
    while (left.length > 0) {
      const part = left.splice(-STATS_AT_ONCE);
      const states = await Promise.all(part.map((path) => stateOf(join(this.#o.dir, path))));
      part.forEach((path, i) => {
        const state = states[i];
        files.set(path, state?.version ?? "not there");
        if (state) changedAt.set(path, state.changedAt);
      });
    }
    return { files, changedAt };
  }
}

/** Prints paths relative to its folder, each after a letter. git reads neither objects nor HEAD. */
const LIST = ["ls-files", "-z", "-t", "-m", "-d", "-o", "--exclude-per-directory=.gitignore"];

function isolatedEnv(own: string, root: string): Record<string, string> {
  return {
    LC_ALL: "C",
    HOME: own,
    XDG_CONFIG_HOME: own,
    GIT_WORK_TREE: root,
    GIT_CONFIG_NOSYSTEM: "1",
    GIT_CONFIG_GLOBAL: "/dev/null",
    GIT_ATTR_NOSYSTEM: "1",
    GIT_OPTIONAL_LOCKS: "0",
    GIT_NO_LAZY_FETCH: "1",
    GIT_ALLOW_PROTOCOL: "",
    GIT_TERMINAL_PROMPT: "0",
  };
}

/** `sparseCheckout` lists files outside of a sparse checkout too. */
function configuration(sha256: boolean): string {
  const mac = process.platform === "darwin" ? ["ignoreCase = true", "precomposeUnicode = true"] : [];
  const core = [
    ...["repositoryFormatVersion = 1", "bare = false", "fsmonitor = false", "untrackedCache = false"],
    ...["hooksPath = /dev/null", "attributesFile = /dev/null"],
    ...["sparseCheckout = true", "sparseCheckoutCone = false", ...mac],
  ];
  const format = `objectFormat = ${sha256 ? "sha256" : "sha1"}`;
  return `[core]\n\t${core.join("\n\t")}\n[protocol]\n\tallow = never\n[extensions]\n\t${format}\n`;
}

/** The parts of the user's repository that are used. */
interface Repository {
  root: string;
  /** The text of `info/exclude`. */
  exclude: string | null;
  sha256: boolean;
  /** Stays the same file when git replaces the index; null for a repository that has none yet. */
  index: { handle: FileHandle; mtimeMs: number } | null;
}

async function rootOf(dir: string): Promise<string | null> {
  for (let at = dir; ; at = dirname(at)) {
    if (await isThere(join(at, ".git"))) return at;
    if (dirname(at) === at) return null;
  }
}

/** Linked work trees and submodules have a file `.git` that names the folder. null for anything else. */
async function openRepository(root: string): Promise<Repository | null> {
  const gitDir = await gitDirOf(join(root, ".git"));
  if (gitDir === null) return null;
  const shared = (await readIfThere(join(gitDir, "commondir")))?.trim();
  const commonDir = shared ? resolve(gitDir, shared) : gitDir;
  const [config, exclude] = await Promise.all(
    ["config", "info/exclude"].map((name) => readIfThere(join(commonDir, name))),
  );
  const sha256 = /^\s*objectformat\s*=\s*"?sha256/im.test(config ?? "");
  return { root, exclude: exclude ?? null, sha256, index: await openIndex(join(gitDir, "index")) };
}

/** What the user ignores in every repository. */
interface UserIgnore {
  /** The text of git's default file, for the case that no configuration names one. */
  text: string | null;
  /** True when the user's configuration may name another file. */
  mayBeNamed: boolean;
}

async function userIgnore({ HOME = "/", XDG_CONFIG_HOME }: WorkTreeOptions["env"]): Promise<UserIgnore> {
  const folder = join(XDG_CONFIG_HOME || join(HOME, ".config"), "git");
  const [text, ...configs] = await Promise.all(
    [join(folder, "ignore"), join(folder, "config"), join(HOME, ".gitconfig")].map(readIfThere),
  );
  const mayBeNamed = configs.some((config) => config && /excludesfile|include/i.test(config));
  return { text: text ?? null, mayBeNamed };
}

async function gitDirOf(path: string): Promise<string | null> {
  if ((await stat(path)).isDirectory()) return path;
  const named = /^gitdir: (.+?)\s*$/.exec((await readRegular(path, MAX_TEXT_BYTES)).toString())?.[1];
  return named === undefined ? null : resolve(dirname(path), named);
}

async function openIndex(path: string): Promise<Repository["index"]> {
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

async function stateOf(path: string): Promise<{ version: string; changedAt: number } | null> {
  try {
    const { mtimeMs, ctimeMs, size, mode } = await lstat(path);
    return { version: `${mtimeMs} ${size} ${mode}`, changedAt: ctimeMs };
  } catch (thrown) {
    if (errnoOf(thrown) === undefined) throw thrown;
    return null;
  }
}

async function isThere(path: string): Promise<boolean> {
  try {
    await stat(path);
    return true;
  } catch (thrown) {
    if (errnoOf(thrown) === undefined) throw thrown;
    return false;
  }
}

/** Returns null when the file is missing or not readable. Fails when it is no regular file. */
async function readIfThere(path: string): Promise<string | null> {
  try {
    return (await readRegular(path, MAX_TEXT_BYTES)).toString();
  } catch (thrown) {
    if (errnoOf(thrown) === undefined) throw thrown;
    return null;
  }
}

function isWithin(folder: string, path: string): boolean {
  const inner = relative(folder, path);
  return inner !== ".." && !inner.startsWith("../") && !isAbsolute(inner);
}
