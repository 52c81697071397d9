/** Finds the project of a folder, and lists the projects in which this user has run something. */

import { lstatSync, mkdirSync, readdirSync, realpathSync, renameSync, rmSync, type Stats } from "node:fs";
import { dirname, isAbsolute, join } from "node:path";
import { z } from "zod";
import { errnoOf } from "../../lib/error-detail.ts";
import { SyscallError } from "../../plugin/index.ts";
import { type Env, userPaths } from "../environment/paths.ts";
import {
  canWrite,
  FileCache,
  fileError,
  folderIdentity,
  jsonOf,
  pathExists,
  writeAtomic,
} from "../files/file.ts";

/** The project of a command. It is found again for every run, never cached. */
export interface Project {
  /** Hash of the real path. A moved folder is another project. */
  id: string;
  /** Real path. For "none" the current folder, to which `/dev/fs` is confined. */
  dir: string;
  /** Where its runs are kept: `.rnix/data`, RNIX_DATA_DIR, or the user's own for "none" and for a read-only project. */
  dataDir: string;
  /** Set for a read-only project: its `.rnix/data`, which may have older runs. */
  unwritableDataDir?: string;
  /**
   * Why it is a project: its `.rnix/`, its git root, or because it is the current folder. "none": the current folder
   * can't be a project (HOME, /tmp …), so nothing in it is read as configuration and nothing is trusted.
   */
  kind: "rnix" | "git" | "folder" | "none";
}

interface CommandLocation {
  /** Absolute, else INVALID. */
  cwd: string;
  home: string;
  uid: number;
  env: Env;
}

/** The file-system calls of the search, so that a test can set owners and borders. */
interface ProjectFs {
  realpath(path: string): string;
  lstat(path: string): Pick<Stats, "dev" | "uid" | "mode" | "isDirectory"> | null;
}

/**
 * Finds the nearest folder upwards that has a `.rnix/` and belongs to the user, else the nearest git root, else the
 * current folder. HOME and the folders above it, world-writable folders and other file systems do not count. With `CI`
 * set, a world-writable folder counts, unless it is one for all users as /tmp is: GitLab's runner clones with umask 0.
 * Fails with NOT_FOUND when the current folder is gone.
 */
export function findProject(at: CommandLocation, fs: ProjectFs = realFs): Project {
  const cwd = realFolder(at.cwd, fs);
  const candidates = candidateFolders(cwd, realOr(at.home, fs), fs, Boolean(at.env.CI));
  const own = candidates.find((dir) => belongsToUser(dir, at.uid, fs));
  if (own !== undefined) return project(own, "rnix", at);
  const git = candidates.find((dir) => fs.lstat(join(dir, ".git")) !== null);
  if (git !== undefined) return project(git, "git", at);
  return candidates[0] === cwd ? project(cwd, "folder", at) : project(cwd, "none", at);
}

/** Makes the data folder. Fails with UNAVAILABLE when it can't be written, and with INVALID for a link out of the project. */
export function prepareProject(project: Project): void {
  const inProject = project.kind !== "none" && project.dataDir === ownDataDir(project.dir);
  if (inProject) requireNoLinks(project.dir);
  try {
    mkdirSync(project.dataDir, { recursive: true, mode: 0o700 });
  } catch (cause) {
    const why = fileError(cause, project.dataDir, "make");
    throw new SyscallError(
      "UNAVAILABLE",
      `${why.message} Runs are recorded there; set RNIX_DATA_DIR to a folder that you can write to.`,
      { cause },
    );
  }
}

/** Fails with INVALID for a link on the way to the records: another author's could lead Rnix to files elsewhere. */
function requireNoLinks(dir: string): void {
  const data = ownDataDir(dir);
  // Below a run's folder, and in those of plugins, the writers check.
  const links = [dirname(data), data, ...namesIn(data), ...namesIn(join(data, "cron"))];
  const link = links.find((path) => lstatSync(path, { throwIfNoEntry: false })?.isSymbolicLink());
  if (link === undefined) return;
  throw new SyscallError(
    "INVALID",
    `${link} is a link, and Rnix follows no link to its records: it could write and remove files elsewhere. Remove the link. To keep records in another folder, set RNIX_DATA_DIR.`,
  );
}

/** The entries of the folder, absolute. Empty for a link. */
function namesIn(data: string): string[] {
  if (!lstatSync(data, { throwIfNoEntry: false })?.isDirectory()) return [];
  return readdirSync(data).map((name) => join(data, name));
}

const realFs: ProjectFs = {
  realpath: (path) => realpathSync(path),
  lstat(path) {
    try {
      return lstatSync(path, { throwIfNoEntry: false }) ?? null;
    } catch (error) {
      // A folder without access cannot be a project.
      if (errnoOf(error) !== undefined) return null;
      throw error;
    }
  },
};

/** The folders from the current one upwards that may be a project. */
function candidateFolders(cwd: string, home: string, fs: ProjectFs, inPipeline: boolean): string[] {
  const device = fs.lstat(cwd)?.dev;
  const folders: string[] = [];
  for (let dir = cwd; ; dir = dirname(dir)) {
    const stat = fs.lstat(dir);
    if (!stat || stat.dev !== device || dir === dirname(dir) || `${home}/`.startsWith(`${dir}/`)) break;
    const isWorldWritable = (stat.mode & 0o002) !== 0;
    // All users may add files, and each removes only its own.
    const isSticky = (stat.mode & 0o1000) !== 0;
    if (!isWorldWritable || (inPipeline && !isSticky)) folders.push(dir);
  }
  return folders;
}

/** False for a `.rnix/` of another user, in a folder of another user, or behind a link. */
function belongsToUser(dir: string, uid: number, fs: ProjectFs): boolean {
  const inner = fs.lstat(join(dir, ".rnix"));
  return inner?.isDirectory() === true && inner.uid === uid && fs.lstat(dir)?.uid === uid;
}

function project(dir: string, kind: Project["kind"], at: CommandLocation): Project {
  const id = Bun.CryptoHasher.hash("sha256", dir, "hex").slice(0, 16);
  return { id, dir, kind, ...dataFolder(dir, kind, at) };
}

function dataFolder(
  dir: string,
  kind: Project["kind"],
  { env, home, uid }: CommandLocation,
): Pick<Project, "dataDir" | "unwritableDataDir"> {
  const given = env.RNIX_DATA_DIR;
  if (given) {
    if (isAbsolute(given)) return { dataDir: given };
    throw new SyscallError("INVALID", `RNIX_DATA_DIR: expected an absolute path, got "${given}".`);
  }
  const own = ownDataDir(dir);
  if (kind !== "none" && canWrite(own)) return { dataDir: own };
  const { dataDir } = userPaths(env, { uid, home, canWrite });
  return kind === "none" ? { dataDir } : { dataDir, unwritableDataDir: own };
}

export function ownDataDir(dir: string): string {
  return join(dir, ".rnix", "data");
}

function realFolder(cwd: string, fs: ProjectFs): string {
  if (!isAbsolute(cwd)) {
    throw new SyscallError("INVALID", `Expected an absolute path of the current folder, got "${cwd}".`);
  }
  let real: string;
  try {
    real = fs.realpath(cwd);
  } catch (cause) {
    const message = `The folder ${cwd} cannot be found. Change to one that exists.`;
    throw new SyscallError("NOT_FOUND", message, { cause });
  }
  if (!fs.lstat(real)?.isDirectory()) throw new SyscallError("INVALID", `${cwd}: expected a folder.`);
  return real;
}

function realOr(path: string, fs: ProjectFs): string {
  try {
    return fs.realpath(path);
  } catch (error) {
    // A HOME that does not exist still protects its own path.
    if (errnoOf(error) !== undefined) return path;
    throw error;
  }
}

const ANSWERS_VERSION = 2;

const AnswersFile = z.lazy(() =>
  z.object({
    v: z.literal(ANSWERS_VERSION),
    project: z.string(),
    /** Identifies the folder: the answers do not count for another folder at the same path. */
    folder: z.string(),
    rules: z.array(z.string()),
  }),
);

/** The answers for one project, in the user's data folder beside its trust, never in the project. */
export class ProjectAnswers {
  readonly #file: string;
  readonly #project: Project;

  constructor(userDataDir: string, project: Project) {
    this.#file = join(userDataDir, "trust", `${project.id}.answers`);
    this.#project = project;
  }

  /** Empty without a project, and in a folder that has replaced the one that was answered for. */
  get rules(): readonly string[] {
    if (this.#project.kind === "none") return [];
    const file = files.get(this.#file);
    return file === null || file.folder !== folderIdentity(this.#project.dir) ? [] : file.rules;
  }

  /** No rules: no answers are left. */
  set(rules: readonly string[]): void {
    if (rules.length === 0) {
      rmSync(this.#file, { force: true });
      return;
    }
    const { dir: project } = this.#project;
    const folder = folderIdentity(project);
    const file = { v: ANSWERS_VERSION, project, folder, rules: [...new Set(rules)] };
    writeAtomic(this.#file, `${JSON.stringify(file, null, 2)}\n`);
  }
}

/** A file of an older version counts as none: its calls are asked for again. */
const files = new FileCache((text, file): z.infer<typeof AnswersFile> | null => {
  const parsed = AnswersFile.safeParse(jsonOf(text));
  if (parsed.success) return parsed.data;
  if (z.object({ v: z.literal(1) }).safeParse(jsonOf(text)).success) return null;
  throw new SyscallError(
    "INVALID",
    `${file}: expected the answers of version ${ANSWERS_VERSION}; it may have been written by a newer rnix. Remove it to be asked again.`,
  );
});

const LIST_VERSION = 1;

const KnownProject = z.object({
  id: z.string(),
  /** The project's folder; for runs outside any project the user's own data folder. */
  dir: z.string(),
  data_dir: z.string(),
});
const Registry = z.lazy(() => z.object({ v: z.literal(LIST_VERSION), projects: z.array(KnownProject) }));

type KnownProject = z.infer<typeof KnownProject>;

/** Locks that the system frees when their holder dies: `FileLock` of the store. */
export interface Locks {
  tryAcquire(path: string): { release(): void } | null;
}

const TRIES = 200;
const PAUSE_MS = 5;
/** The file is read whole. This is enough for some thousand projects. */
const MAX_BYTES = 512 * 1024;

/**
 * The projects in which this user has run something (`projects.json` in the user's data folder). The daemon sweeps and
 * lists them. When the file gets too long, projects whose folder is gone are dropped first, then the oldest. A damaged
 * file is renamed, and its readable entries are kept. The next run in a lost project adds it again.
 */
export class Projects {
  readonly #file: string;
  readonly #locks: Locks;
  readonly #warn: (text: string) => void;
  readonly #cache = new FileCache(parse);

  constructor(userDataDir: string, locks: Locks, warn: (text: string) => void = () => {}) {
    this.#file = join(userDataDir, "projects.json");
    this.#locks = locks;
    this.#warn = warn;
  }

  /** Fails with UNAVAILABLE when a newer rnix has written the file. */
  list(): KnownProject[] {
    const read = this.#read();
    return "damaged" in read ? this.#repair(read.damaged) : read.projects;
  }

  /** Returns whether it is new; a known one costs one `stat`. Fails with TIMEOUT when the lock is held for a second. */
  async remember(project: Project): Promise<boolean> {
    const entry = entryOf(project);
    if (this.#has(entry)) return false;
    const lock = await this.#lock();
    try {
      if (this.#has(entry)) return false;
      this.#write([...this.list(), entry]);
      return true;
    } finally {
      lock.release();
    }
  }

  #read(): RegistryContent {
    try {
      return this.#cache.get(this.#file) ?? { projects: [] };
    } catch (error) {
      // The list is no regular file, or is too large.
      if (error instanceof SyscallError && error.code === "INVALID") return { damaged: [] };
      throw error;
    }
  }

  /** Renames the damaged file and writes its readable entries. The holder of the lock does it; others only read. */
  #repair(left: KnownProject[]): KnownProject[] {
    const lock = this.#locks.tryAcquire(`${this.#file}.lock`);
    if (!lock) return left;
    try {
      const now = this.#read();
      if (!("damaged" in now)) return now.projects;
      const aside = `${this.#file}.damaged`;
      renameSync(this.#file, aside);
      this.#write(now.damaged);
      this.#warn(
        `${this.#file} was damaged and is renamed to ${aside}. ${now.damaged.length} projects could be read. The others are added again when something is run in them.`,
      );
      return now.damaged;
    } catch (error) {
      throw fileError(error, this.#file, "set aside");
    } finally {
      lock.release();
    }
  }

  #write(projects: readonly KnownProject[]): void {
    writeAtomic(this.#file, withinBounds(projects), { isLocked: true });
  }

  #has(entry: KnownProject): boolean {
    return this.list().some(({ id, data_dir }) => id === entry.id && data_dir === entry.data_dir);
  }

  async #lock(): Promise<{ release(): void }> {
    mkdirSync(dirname(this.#file), { recursive: true, mode: 0o700 });
    for (let tries = 0; tries < TRIES; tries++) {
      const lock = this.#locks.tryAcquire(`${this.#file}.lock`);
      if (lock) return lock;
      await Bun.sleep(PAUSE_MS);
    }
    throw new SyscallError("TIMEOUT", `${this.#file}.lock is held by another rnix for over a second.`);
  }
}

/** Runs outside projects share one data folder, so they are one entry. */
function entryOf({ id, dir, dataDir, kind }: Project): KnownProject {
  return kind === "none" ? { id: "user", dir: dataDir, data_dir: dataDir } : { id, dir, data_dir: dataDir };
}

function withinBounds(all: readonly KnownProject[]): string {
  const text = `${JSON.stringify({ v: LIST_VERSION, projects: all }, null, 2)}\n`;
  if (Buffer.byteLength(text) <= MAX_BYTES) return text;
  // The last one is the one being added.
  const there = all.filter((project, at) => at === all.length - 1 || pathExists(project.data_dir));
  const kept = there.length < all.length ? there : all.slice(Math.ceil(all.length / 10));
  return withinBounds(kept);
}

/** The entries, or the readable part of a damaged file. */
type RegistryContent = { projects: KnownProject[] } | { damaged: KnownProject[] };

function parse(text: string, file: string): RegistryContent {
  const value = jsonOf(text);
  const result = Registry.safeParse(value);
  if (result.success) return { projects: result.data.projects };
  const version = z.object({ v: z.number() }).safeParse(value).data?.v ?? LIST_VERSION;
  if (version <= LIST_VERSION) {
    // An entry contains a brace only when its folder's name does.
    const entries = [...text.matchAll(/\{[^{}]*\}/g)];
    return { damaged: entries.flatMap(([entry]) => KnownProject.safeParse(jsonOf(entry)).data ?? []) };
  }
  throw new SyscallError(
    "UNAVAILABLE",
    `${file} has version ${version}; this rnix reads version ${LIST_VERSION}. It was written by a newer rnix: update this one.`,
  );
}
