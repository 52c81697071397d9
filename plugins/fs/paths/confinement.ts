/** Opens paths within the folders that a run may use. */

import { constants, type Stats } from "node:fs";
import { type FileHandle, lstat, open, realpath } from "node:fs/promises";
import { basename, dirname, join, relative, resolve } from "node:path";
import { type GuardedFolder, type OpenContext, SyscallError } from "rnix/plugin";
import { shownPath } from "../display.ts";
import { errnoOf, systemError } from "../errors.ts";
import { didYouMean } from "./did-you-mean.ts";
import { Folder } from "./folder.ts";
import { isInside, openedPath, realOrSame, realPathOfExisting } from "./real-path.ts";
import { locate, type WriteTarget } from "./write-target.ts";

/** A regular file that is open and may be read. The caller closes it. */
export interface OpenedFile {
  handle: FileHandle;
  stat: Stats;
  /** Its real path. */
  path: string;
}

/** An existing file, folder or device. */
interface ExistingPath {
  path: string;
  stat: Stats;
}

/** O_NONBLOCK: opening a FIFO would wait for its writer. O_NOFOLLOW: the path is resolved already. */
const OPEN_READ = constants.O_RDONLY | constants.O_NONBLOCK | constants.O_NOFOLLOW;
/** Linux's O_PATH, which Node does not name: a descriptor for stat only, which needs no permission to read. */
const OPEN_LOOK = 0o10000000 | constants.O_NOFOLLOW;
const LINUX = process.platform === "linux";
/** The run's own records: tools may read and never write them. */
const RECORDS = /(?:^|\/)\.rnix\/data(?:\/|$)/i;
/** A run that may not read a file may not search, list or edit it either. */
const READING = ["Read"];
/** Paths in one request to the kernel. */
const MAX_PATHS = 256;

/**
 * Confines every path to the project and the folders of `--add`, and every file to the run's rules. Both are checked on
 * the real path of the open descriptor, so replacing a symlink meanwhile has no effect.
 */
export class Confinement {
  readonly #context: OpenContext;
  #roots: string[] | undefined;
  #guarded: GuardedFolder[] | undefined;

  constructor(context: OpenContext) {
    this.#context = context;
  }

  shown(path: string): string {
    return shownPath(this.#context.cwd, path);
  }

  /** This file (its real path) is about to be changed. */
  changing(path: string): Promise<void> {
    return this.#context.changing(path);
  }

  /** Opens a regular file for reading. INVALID, without waiting, for folders, FIFOs, sockets and devices. */
  async open(path: string): Promise<OpenedFile> {
    const real = await this.#existing(path);
    try {
      checkRegular(await lstat(real), path);
      const handle = await open(real, OPEN_READ);
      try {
        const stat = await handle.stat();
        checkRegular(stat, path);
        const opened = await this.#openedInside(handle, stat, real, path);
        await this.#checkRules(opened, path, READING);
        return { handle, stat, path: opened };
      } catch (thrown) {
        await handle.close();
        throw thrown;
      }
    } catch (thrown) {
      throw systemError(thrown, `open ${path}`);
    }
  }

  /** The start of a search. The files of a folder are checked one by one, when the search reaches them. */
  async searchStart(path: string): Promise<ExistingPath> {
    return this.look(path, (stat) => !stat.isDirectory());
  }

  /** The existing file or folder. NOT_FOUND names the most similar path. */
  async look(path: string, hasRules: (stat: Stats) => boolean = () => true): Promise<ExistingPath> {
    const real = await this.#existing(path);
    try {
      if (!LINUX) return await this.#lookByPath(real, path, hasRules);
      const handle = await open(real, OPEN_LOOK);
      try {
        const stat = await handle.stat();
        const opened = await this.#openedInside(handle, stat, real, path);
        if (hasRules(stat)) await this.#checkRules(opened, path, READING);
        return { stat, path: opened };
      } finally {
        await handle.close();
      }
    } catch (thrown) {
      throw systemError(thrown, `look at ${path}`);
    }
  }

  /** Checks the rules again: they may have changed while the file was open. */
  async recheck(file: OpenedFile): Promise<void> {
    await this.#checkRules(file.path, file.path, READING);
  }

  /** Which of these real paths inside may be read and named. */
  async readable(paths: readonly string[]): Promise<boolean[]> {
    const guarded = this.#realGuarded().filter(({ readable }) => !readable);
    const refusals: (string | null)[] = [];
    for (let at = 0; at < paths.length; at += MAX_PATHS)
      refusals.push(...(await this.#context.access(paths.slice(at, at + MAX_PATHS), READING)));
    return paths.map(
      (path, index) => refusals[index] === null && !guarded.some(({ dir }) => isInside(dir, path)),
    );
  }

  async target(path: string): Promise<WriteTarget> {
    const absolute = await this.#absolute(path);
    if (/[/\\]$/.test(path))
      throw new SyscallError("INVALID", `${path} ends with a slash: expected the name of a file.`);
    try {
      const target = await locate(absolute);
      await this.#checkWrite(target.path, path);
      if (target.stat) checkRegular(target.stat, path);
      return target;
    } catch (thrown) {
      throw systemError(thrown, `write ${path}`);
    }
  }

  /**
   * Opens the target's folder and creates the missing ones. The write is checked for the open folder before anything is
   * created in it, and again for the last one.
   */
  async openFolder(target: WriteTarget): Promise<Folder> {
    let folder = await Folder.open(target.folder);
    try {
      await this.#checkWrite(join(await folder.path(), ...target.missing, target.name), target.path);
      for (const name of target.missing) {
        const next = await folder.enter(name);
        await folder.close();
        folder = next;
      }
      if (target.missing.length > 0)
        await this.#checkWrite(join(await folder.path(), target.name), target.path);
      return folder;
    } catch (thrown) {
      await folder.close();
      throw thrown;
    }
  }

  /** The real path of an open file, which must be inside. */
  async #openedInside(handle: FileHandle, stat: Stats, expected: string, asked: string): Promise<string> {
    const real = await openedPath(handle.fd, expected, stat);
    this.#checkInside(real, asked);
    return real;
  }

  async #checkWrite(real: string, asked: string): Promise<void> {
    this.#checkInside(real, asked);
    this.#checkNotRecords(real, asked);
    await this.#checkRules(real, asked, []);
  }

  async #checkRules(real: string, asked: string, also: readonly string[]): Promise<void> {
    const [refusal] = await this.#context.access([real], also);
    if (refusal === null) return;
    const name = this.shown(real);
    const subject =
      this.shown(resolve(this.#context.cwd, asked)) === name ? name : `${asked} leads to ${name}`;
    throw new SyscallError("PERMISSION", `${subject}. ${refusal}`);
  }

  async #lookByPath(real: string, asked: string, hasRules: (stat: Stats) => boolean): Promise<ExistingPath> {
    const stat = await lstat(real);
    if (hasRules(stat)) await this.#checkRules(real, asked, READING);
    if ((await realpath(real)) === real) return { path: real, stat };
    throw new SyscallError("PERMISSION", `${asked} was replaced meanwhile. Try again.`);
  }

  async #existing(path: string): Promise<string> {
    const absolute = await this.#absolute(path);
    let real: string;
    try {
      real = await realpath(absolute);
    } catch (thrown) {
      if (errnoOf(thrown) === "ENOENT") throw await this.#notFound(absolute);
      throw systemError(thrown, `open ${path}`);
    }
    this.#checkInside(real, path);
    return real;
  }

  async #absolute(path: string): Promise<string> {
    if (path.includes("\0")) {
      const message = `The path ${JSON.stringify(path.slice(0, 200))} contains a NUL byte: no file has such a name.`;
      throw new SyscallError("PERMISSION", message);
    }
    const absolute = resolve(this.#context.cwd, path);
    const { project, folders } = this.#context;
    const realRoots = this.#realRoots();
    const isIn = (roots: string[], where: string) => roots.some((root) => isInside(root, where));
    if (isIn([project.dir, ...folders, ...realRoots], absolute)) return absolute;
    // Users name files by the symlink through which they entered the folder. Outside, not even existence is revealed.
    const real = await realPathOfExisting(absolute);
    if (real === undefined || !isIn(realRoots, real)) throw this.#outside(path, absolute);
    return real;
  }

  #checkInside(real: string, path: string): void {
    const roots = this.#realRoots();
    if (!roots.some((root) => isInside(root, real))) throw this.#outside(path, real);
    const guarded = this.#realGuarded();
    if (!guarded.some(({ dir, readable }) => !readable && isInside(dir, real))) return;
    const message = `${path} belongs to the settings and keys of Rnix, which tools can't read.`;
    throw new SyscallError("PERMISSION", message);
  }

  #checkNotRecords(real: string, path: string): void {
    const roots = this.#realRoots();
    const guarded = this.#realGuarded();
    const record = roots.some((root) => isInside(root, real) && RECORDS.test(relative(root, real)));
    if (!record && !guarded.some(({ dir }) => isInside(dir, real))) return;
    throw new SyscallError("PERMISSION", `${path} belongs to the records of Rnix, which tools can't change.`);
  }

  #realGuarded(): GuardedFolder[] {
    this.#guarded ??= this.#context.guarded.map(({ dir, readable }) => ({ dir: realOrSame(dir), readable }));
    return this.#guarded;
  }

  #realRoots(): string[] {
    const { project, folders } = this.#context;
    this.#roots ??= [project.dir, ...folders].map(realOrSame);
    return this.#roots;
  }

  #outside(path: string, real: string): SyscallError {
    const { project, folders } = this.#context;
    const leads = real === path ? "" : ` leads to ${real}, which`;
    const message = `${path}${leads} is outside the folders of this run: ${[project.dir, ...folders].join(", ")}. \`rnix spawn --add FOLDER\`, or \`/add FOLDER\` in a conversation, adds another folder.`;
    return new SyscallError("PERMISSION", message);
  }

  async #notFound(absolute: string): Promise<SyscallError> {
    let folder = dirname(absolute);
    let name = basename(absolute);
    for (;;) {
      const names = await this.#namesIn(folder);
      if (names !== null) {
        if (names.includes(name))
          return new SyscallError("NOT_FOUND", `${this.shown(join(folder, name))} is a broken symlink.`);
        const similar = didYouMean(name, names);
        const meant = similar && `Did you mean ${this.shown(join(folder, similar))}?`;
        const hint = meant ?? "Glob finds files by name.";
        const where = folder === dirname(absolute) ? "" : ` In ${this.shown(folder)} there is no ${name}.`;
        return new SyscallError("NOT_FOUND", `${this.shown(absolute)} does not exist.${where} ${hint}`);
      }
      if (folder === dirname(folder)) return new SyscallError("NOT_FOUND", `${absolute} does not exist.`);
      name = basename(folder);
      folder = dirname(folder);
    }
  }

  /** The names in a folder that this run may see; none outside its folders, null when there is no such folder. */
  async #namesIn(path: string): Promise<string[] | null> {
    let folder: Folder | undefined;
    try {
      folder = await Folder.open(realOrSame(path));
      const real = await folder.path();
      const roots = this.#realRoots();
      if (!roots.some((root) => isInside(root, real))) return [];
      const names = (await folder.names()).slice(0, MAX_HINTED);
      const readable = await this.readable(names.map((name) => join(real, name)));
      return names.filter((_, index) => readable[index]);
    } catch (thrown) {
      if (["ENOENT", "ENOTDIR", "EACCES", "ELOOP"].includes(errnoOf(thrown))) return null;
      throw systemError(thrown, `list ${path}`);
    } finally {
      await folder?.close();
    }
  }
}

/** Names that are compared to find the one that was meant: a hint is not worth more time. */
const MAX_HINTED = 1_000;

/** Fails with INVALID for folders, FIFOs, sockets and devices. */
function checkRegular(info: Stats, path: string): void {
  if (info.isFile()) return;
  if (info.isDirectory()) {
    const message = `${path} is a folder. Glob lists its files: {"pattern": "*", "path": "${path}"}.`;
    throw new SyscallError("INVALID", message);
  }
  const message = `${path} is ${kindOf(info)}, not a file: reading or writing it could block for ever.`;
  throw new SyscallError("INVALID", message);
}

function kindOf(info: Stats): string {
  if (info.isFIFO()) return "a FIFO";
  if (info.isSocket()) return "a socket";
  return "a device";
}
