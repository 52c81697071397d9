import { constants, type Stats } from "node:fs";
import { type FileHandle, lstat, mkdir, open, readdir, readlink, realpath, stat } from "node:fs/promises";
import { basename, dirname, join, relative, resolve, sep } from "node:path";
import { type GuardedFolder, type OpenContext, SyscallError } from "rnix/plugin";
import { errnoOf, systemError } from "./errors.ts";
import { nearest } from "./nearest.ts";
import { realAsFarAsThere } from "./real-path.ts";

/** A regular file that is open and lies inside. Whoever got it closes it. */
export interface OpenedFile {
  handle: FileHandle;
  stat: Stats;
  /** Its real path. */
  path: string;
}

/** Where a file is to be written: an existing real folder, folders to be made below it, and the name. */
export interface Target {
  folder: string;
  missing: string[];
  name: string;
  /** The whole path. */
  path: string;
  /** The file as it is now; absent when there is none. */
  stat?: Stats;
}

/** Without O_NONBLOCK opening a FIFO waits for its other side; O_NOFOLLOW as the path is resolved already. */
const OPEN_READ = constants.O_RDONLY | constants.O_NONBLOCK | constants.O_NOFOLLOW;
const OPEN_FOLDER = constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW;
/** The run's own records: tools may read and never write them. */
const RECORDS = /(?:^|\/)\.rnix\/data(?:\/|$)/i;

/**
 * Holds every path inside the project and the folders of `--add`, after symlinks are resolved. What is
 * opened is looked at once more when it is open: a link swapped in after the check changes nothing.
 */
export class Confinement {
  readonly #context: OpenContext;
  #roots: Promise<string[]> | undefined;
  #guarded: Promise<GuardedFolder[]> | undefined;

  constructor(context: OpenContext) {
    this.#context = context;
  }

  /** How the model and the person see a path: relative to the working folder where it lies inside. */
  shown(path: string): string {
    const inner = relative(this.#context.cwd, path);
    if (inner === "") return ".";
    return inner === ".." || inner.startsWith(`..${sep}`) ? path : inner;
  }

  /** The real path of something that exists. NOT_FOUND names what is nearest. */
  async existing(path: string): Promise<string> {
    const absolute = await this.#absolute(path);
    let real: string;
    try {
      real = await realpath(absolute);
    } catch (thrown) {
      if (errnoOf(thrown) === "ENOENT") throw await this.#notFound(absolute);
      throw systemError(thrown, `open ${path}`);
    }
    await this.#checkInside(real, path);
    return real;
  }

  /** Opens a regular file for reading. Folders, FIFOs, sockets and devices are INVALID, and never waited for. */
  async open(path: string): Promise<OpenedFile> {
    const real = await this.existing(path);
    try {
      checkRegular(await stat(real), path);
      return await this.openReal(real);
    } catch (thrown) {
      throw systemError(thrown, `open ${path}`);
    }
  }

  /** The same for a path that a walk has found. */
  async openReal(real: string): Promise<OpenedFile> {
    const handle = await open(real, OPEN_READ);
    try {
      const info = await handle.stat();
      checkRegular(info, real);
      await this.#checkInside(await pathOf(handle, real, info), real);
      return { handle, stat: info, path: real };
    } catch (thrown) {
      await handle.close();
      throw thrown;
    }
  }

  /** Where a write to this path would go. */
  async target(path: string): Promise<Target> {
    const absolute = await this.#absolute(path);
    if (/[/\\]$/.test(path)) {
      throw new SyscallError("INVALID", `${path} ends with a slash: expected the name of a file.`);
    }
    try {
      const target = await locate(absolute);
      await this.#checkInside(target.path, path);
      await this.#checkNotOurs(target.path, path);
      if (target.stat) checkRegular(target.stat, path);
      return target;
    } catch (thrown) {
      throw systemError(thrown, `write ${path}`);
    }
  }

  /** Opens the target's folder, makes the ones that are missing, and stands still there. */
  async openFolder(target: Target): Promise<Folder> {
    let folder = await Folder.open(target.folder);
    try {
      await this.#checkInside(await folder.path(), target.path);
      for (const name of target.missing) {
        const next = await folder.enter(name);
        await folder.close();
        folder = next;
      }
      await this.#checkInside(await folder.path(), target.path);
      return folder;
    } catch (thrown) {
      await folder.close();
      throw thrown;
    }
  }

  async #absolute(path: string): Promise<string> {
    if (path.includes("\0")) {
      throw new SyscallError(
        "PERMISSION",
        `The path ${JSON.stringify(path.slice(0, 200))} holds a NUL byte: no file has such a name.`,
      );
    }
    const absolute = resolve(this.#context.cwd, path);
    const { project, folders } = this.#context;
    const realRoots = await this.#realRoots();
    const isIn = (roots: string[], where: string) => roots.some((root) => isInside(root, where));
    if (isIn([project.dir, ...folders, ...realRoots], absolute)) return absolute;
    // A person who came in through a link names files by it. Of what lies outside nothing is told, not even if it is there.
    const real = await realAsFarAsThere(absolute);
    if (real === undefined || !isIn(realRoots, real)) throw this.#outside(path, absolute);
    return real;
  }

  async #checkInside(real: string, path: string): Promise<void> {
    const roots = await this.#realRoots();
    if (!roots.some((root) => isInside(root, real))) throw this.#outside(path, real);
    const guarded = await this.#realGuarded();
    if (!guarded.some(({ dir, readable }) => !readable && isInside(dir, real))) return;
    throw new SyscallError(
      "PERMISSION",
      `${path} belongs to the settings and keys of Rnix, which tools can't read.`,
    );
  }

  async #checkNotOurs(real: string, path: string): Promise<void> {
    const roots = await this.#realRoots();
    const guarded = await this.#realGuarded();
    const record = roots.some((root) => isInside(root, real) && RECORDS.test(relative(root, real)));
    if (!record && !guarded.some(({ dir }) => isInside(dir, real))) return;
    throw new SyscallError("PERMISSION", `${path} belongs to the records of Rnix, which tools can't change.`);
  }

  #realGuarded(): Promise<GuardedFolder[]> {
    this.#guarded ??= Promise.all(
      this.#context.guarded.map(async ({ dir, readable }) => ({ dir: await realOrSame(dir), readable })),
    );
    return this.#guarded;
  }

  #realRoots(): Promise<string[]> {
    const { project, folders } = this.#context;
    this.#roots ??= Promise.all([project.dir, ...folders].map(realOrSame));
    return this.#roots;
  }

  #outside(path: string, real: string): SyscallError {
    const { project, folders } = this.#context;
    const leads = real === path ? "" : ` leads to ${real}, which`;
    return new SyscallError(
      "PERMISSION",
      `${path}${leads} is outside of what this run may touch: ${[project.dir, ...folders].join(", ")}. Another folder is added by \`rnix spawn --add FOLDER\`.`,
    );
  }

  async #notFound(absolute: string): Promise<SyscallError> {
    let folder = dirname(absolute);
    let name = basename(absolute);
    for (;;) {
      const real = await realOrSame(folder);
      const names = await namesIn(real);
      if (names !== null) {
        // Nothing is told of a folder outside that a link leads to.
        const roots = await this.#realRoots();
        const told = roots.some((root) => isInside(root, real)) ? names : [];
        if (told.includes(name)) {
          const link = this.shown(join(folder, name));
          return new SyscallError("NOT_FOUND", `${link} is a symlink that leads nowhere.`);
        }
        const similar = nearest(name, told);
        const hint =
          similar === undefined
            ? "Glob finds files by name."
            : `Did you mean ${this.shown(join(folder, similar))}?`;
        const where = folder === dirname(absolute) ? "" : ` In ${this.shown(folder)} there is no ${name}.`;
        return new SyscallError("NOT_FOUND", `${this.shown(absolute)} does not exist.${where} ${hint}`);
      }
      if (folder === dirname(folder)) return new SyscallError("NOT_FOUND", `${absolute} does not exist.`);
      name = basename(folder);
      folder = dirname(folder);
    }
  }
}

/** An open folder. What is made in it is made in this very folder, whatever its path has become. */
export class Folder {
  readonly #handle: FileHandle;
  readonly #opened: string;

  private constructor(handle: FileHandle, path: string) {
    this.#handle = handle;
    this.#opened = path;
  }

  static async open(path: string, shownAs = path): Promise<Folder> {
    return new Folder(await open(path, OPEN_FOLDER), shownAs);
  }

  /** A name in it, as a path. Beside Linux there is no way to name a file by its open folder. */
  at(name: string): string {
    return process.platform === "linux"
      ? `/proc/self/fd/${this.#handle.fd}/${name}`
      : join(this.#opened, name);
  }

  async path(): Promise<string> {
    return pathOf(this.#handle, this.#opened, await this.#handle.stat());
  }

  /** The folder of this name in it, made when it is not there. */
  async enter(name: string): Promise<Folder> {
    const path = this.at(name);
    await mkdirUnlessThere(path);
    return Folder.open(path, join(this.#opened, name));
  }

  async close(): Promise<void> {
    await this.#handle.close();
  }
}

/** Where an open file really is. Elsewhere than on Linux: its path, if it still leads to the same file. */
async function pathOf(handle: FileHandle, opened: string, info: Stats): Promise<string> {
  if (process.platform === "linux") return readlink(`/proc/self/fd/${handle.fd}`);
  const real = await realpath(opened);
  const there = await lstat(real);
  if (there.ino === info.ino && there.dev === info.dev) return real;
  throw new SyscallError("PERMISSION", `${opened} was exchanged while it was being opened. Try again.`);
}

async function locate(absolute: string): Promise<Target> {
  const missing: string[] = [];
  for (let path = absolute; ; path = dirname(path)) {
    const real = await realIfThere(path);
    if (real === undefined) {
      missing.unshift(basename(path));
      continue;
    }
    const info = await stat(real);
    const name = missing.pop();
    if (name === undefined) {
      return { folder: dirname(real), missing, name: basename(real), path: real, stat: info };
    }
    if (!info.isDirectory()) {
      throw new SyscallError("INVALID", `${path} is a file, not a folder: nothing can be written below it.`);
    }
    return { folder: real, missing, name, path: join(real, ...missing, name) };
  }
}

/** undefined when nothing is there. A symlink that leads nowhere is refused: its aim can't be checked. */
async function realIfThere(path: string): Promise<string | undefined> {
  try {
    return await realpath(path);
  } catch (thrown) {
    if (errnoOf(thrown) !== "ENOENT" || path === dirname(path)) throw thrown;
  }
  try {
    await lstat(path);
  } catch (thrown) {
    if (errnoOf(thrown) === "ENOENT") return undefined;
    throw thrown;
  }
  throw new SyscallError(
    "PERMISSION",
    `${path} is a symlink that leads nowhere. Write to its aim, or remove it first.`,
  );
}

function checkRegular(info: Stats, path: string): void {
  if (info.isFile()) return;
  if (info.isDirectory()) {
    throw new SyscallError(
      "INVALID",
      `${path} is a folder. Glob lists its files: {"pattern": "*", "path": "${path}"}.`,
    );
  }
  throw new SyscallError(
    "INVALID",
    `${path} is ${kindOf(info)}, not a file: reading or writing it could wait for ever.`,
  );
}

function kindOf(info: Stats): string {
  if (info.isFIFO()) return "a FIFO";
  if (info.isSocket()) return "a socket";
  return "a device";
}

async function mkdirUnlessThere(path: string): Promise<void> {
  try {
    await mkdir(path);
  } catch (thrown) {
    if (errnoOf(thrown) !== "EEXIST") throw thrown;
  }
}

async function realOrSame(path: string): Promise<string> {
  try {
    return await realpath(path);
  } catch (thrown) {
    if (["ENOENT", "ENOTDIR", "EACCES"].includes(errnoOf(thrown))) return resolve(path);
    throw systemError(thrown, `resolve ${path}`);
  }
}

/** null when there is no such folder. */
async function namesIn(folder: string): Promise<string[] | null> {
  try {
    return await readdir(folder);
  } catch (thrown) {
    if (["ENOENT", "ENOTDIR", "EACCES", "ELOOP"].includes(errnoOf(thrown))) return null;
    throw systemError(thrown, `list ${folder}`);
  }
}

function isInside(root: string, path: string): boolean {
  return path === root || path.startsWith(root.endsWith(sep) ? root : root + sep);
}
