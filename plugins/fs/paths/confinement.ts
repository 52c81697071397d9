import { constants, type Stats } from "node:fs";
import { type FileHandle, lstat, open, realpath } from "node:fs/promises";
import { basename, dirname, join, relative, resolve } from "node:path";
import { type GuardedFolder, type OpenContext, SyscallError } from "rnix/plugin";
import { shownPath } from "../display.ts";
import { errnoOf, systemError } from "../errors.ts";
import { didYouMean } from "./did-you-mean.ts";
import { Folder } from "./folder.ts";
import { isInside, openedPath, realOrSame, realPathOfExisting } from "./real-path.ts";
import { checkRegular } from "./regular-file.ts";
import { locate, type Target } from "./write-target.ts";

/** A regular file that is open and may be read. The caller closes it. */
export interface OpenedFile {
  handle: FileHandle;
  stat: Stats;
  /** Its real path. */
  path: string;
}

/** Something that is there, whatever it is. */
export interface Seen {
  path: string;
  stat: Stats;
}

/** Without O_NONBLOCK opening a FIFO waits for its other side; O_NOFOLLOW as the path is resolved already. */
const OPEN_READ = constants.O_RDONLY | constants.O_NONBLOCK | constants.O_NOFOLLOW;
/** Linux's O_PATH, which Node does not name: a descriptor to look at, whatever it is and whoever may read it. */
const OPEN_LOOK = 0o10000000 | constants.O_NOFOLLOW;
const LINUX = process.platform === "linux";
/** The run's own records: tools may read and never write them. */
const RECORDS = /(?:^|\/)\.rnix\/data(?:\/|$)/i;
/** Who may not read a file does not search, list or edit it either. */
const READING = ["Read"];
/** Files that the kernel is asked about at once. */
const ASKED_AT_ONCE = 256;

/**
 * Holds every path inside the project and the folders of `--add`, and every file to the run's rules. Both are
 * decided on what was opened, by the real path of its descriptor: a link that was exchanged changes nothing.
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
    return shownPath(this.#context.cwd, path);
  }

  /** Opens a regular file for reading. Folders, FIFOs, sockets and devices are INVALID, and never waited for. */
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

  /** Where a search begins. Of a folder each file is decided by itself, when the search comes to it. */
  async searchStart(path: string): Promise<Seen> {
    return this.#look(path, (stat) => !stat.isDirectory());
  }

  /** What stands there, a folder too. NOT_FOUND names what is nearest. */
  async look(path: string): Promise<Seen> {
    return this.#look(path, () => true);
  }

  async #look(path: string, byRules: (stat: Stats) => boolean): Promise<Seen> {
    const real = await this.#existing(path);
    try {
      if (!LINUX) return await this.#lookByPath(real, path, byRules);
      const handle = await open(real, OPEN_LOOK);
      try {
        const stat = await handle.stat();
        const opened = await this.#openedInside(handle, stat, real, path);
        if (byRules(stat)) await this.#checkRules(opened, path, READING);
        return { stat, path: opened };
      } finally {
        await handle.close();
      }
    } catch (thrown) {
      throw systemError(thrown, `look at ${path}`);
    }
  }

  /** Asks the rules again: they may have changed while the file was open. */
  async recheck(file: OpenedFile): Promise<void> {
    await this.#checkRules(file.path, file.path, READING);
  }

  /** Which of these real paths inside may be read and named. */
  async readable(paths: readonly string[]): Promise<boolean[]> {
    const guarded = (await this.#realGuarded()).filter(({ readable }) => !readable);
    const refusals: (string | null)[] = [];
    for (let at = 0; at < paths.length; at += ASKED_AT_ONCE) {
      refusals.push(...(await this.#context.access(paths.slice(at, at + ASKED_AT_ONCE), READING)));
    }
    return paths.map(
      (path, index) => refusals[index] === null && !guarded.some(({ dir }) => isInside(dir, path)),
    );
  }

  /** Where a write to this path would go. */
  async target(path: string): Promise<Target> {
    const absolute = await this.#absolute(path);
    if (/[/\\]$/.test(path)) {
      throw new SyscallError("INVALID", `${path} ends with a slash: expected the name of a file.`);
    }
    try {
      const target = await locate(absolute);
      await this.#decideWrite(target.path, path);
      if (target.stat) checkRegular(target.stat, path);
      return target;
    } catch (thrown) {
      throw systemError(thrown, `write ${path}`);
    }
  }

  /**
   * Opens the target's folder and makes the ones that are missing. The write is decided on the folder that is open,
   * before anything is made in it, and again on the last one.
   */
  async openFolder(target: Target): Promise<Folder> {
    let folder = await Folder.open(target.folder);
    try {
      await this.#decideWrite(join(await folder.path(), ...target.missing, target.name), target.path);
      for (const name of target.missing) {
        const next = await folder.enter(name);
        await folder.close();
        folder = next;
      }
      if (target.missing.length > 0) {
        await this.#decideWrite(join(await folder.path(), target.name), target.path);
      }
      return folder;
    } catch (thrown) {
      await folder.close();
      throw thrown;
    }
  }

  /** The real path of what was opened. */
  async #openedInside(handle: FileHandle, stat: Stats, expected: string, asked: string): Promise<string> {
    const real = await openedPath(handle.fd, expected, stat);
    await this.#checkInside(real, asked);
    return real;
  }

  async #decideWrite(real: string, asked: string): Promise<void> {
    await this.#checkInside(real, asked);
    await this.#checkNotOurs(real, asked);
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

  async #lookByPath(real: string, asked: string, byRules: (stat: Stats) => boolean): Promise<Seen> {
    const stat = await lstat(real);
    if (byRules(stat)) await this.#checkRules(real, asked, READING);
    if ((await realpath(real)) === real) return { path: real, stat };
    throw new SyscallError("PERMISSION", `${asked} was exchanged while it was looked at. Try again.`);
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
    await this.#checkInside(real, path);
    return real;
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
    const real = await realPathOfExisting(absolute);
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
      const names = await this.#namesIn(folder);
      if (names !== null) {
        if (names.includes(name)) {
          const link = this.shown(join(folder, name));
          return new SyscallError("NOT_FOUND", `${link} is a symlink that leads nowhere.`);
        }
        const similar = didYouMean(name, names);
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

  /** The names in a folder that this run may know, none of a folder outside; null when there is no such folder. */
  async #namesIn(path: string): Promise<string[] | null> {
    let folder: Folder | undefined;
    try {
      folder = await Folder.open(await realOrSame(path));
      const real = await folder.path();
      const roots = await this.#realRoots();
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

/** Names that are looked through for one that was meant. */
const MAX_HINTED = 1_000;
