/** Compares a git work tree with what it was, by the times of its files, as git's index has them, and of its folders. */

import { type Dirent, lstatSync, readdirSync, type Stats } from "node:fs";
import { dirname, join } from "node:path";
import { errnoOf } from "../../lib/error-detail.ts";
import { nameOf, pathOf } from "../../lib/file-name.ts";
import { readRegularSync } from "../../lib/regular-file.ts";
import { SyscallError } from "../../plugin/index.ts";
import type { ObjectFormat } from "../../store/changes/object-store.ts";
import { TimeSlices } from "../../store/files/time-slice.ts";
import { type IndexedFile, OID_BYTES, readIndex } from "./git-index.ts";
import { IgnoreGuess } from "./ignore-guess.ts";

/** The clock of a file system is coarser than ours: a folder that changed within this time is read again. */
const RECENT_MS = 25;
const NANOSECONDS_LOST_MS = 0.002;
const LINK_TO_REPOSITORY = 0o160000;
const TYPE = 0o170000;
const PERMISSIONS = 0o7777;
const EXECUTABLE = 0o100;
const MAX_IGNORE_BYTES = 1024 ** 2;
const IGNORE_FILE = ".gitignore";
/** How often the folders of one run are watched once more, after some were moved or could not be watched. */
const MAX_WATCHES = 50;

export interface IndexEntry {
  kind: "file" | "exec" | "link" | "other";
  /** The name of its content in the user's repository. */
  oid: string;
  /** Its permissions in the work tree before it changed; absent: not known. */
  mode?: number;
  /** The lower half of its inode before it changed. */
  ino?: number;
}

interface ScanOptions {
  /** The folder that is compared, absolute, and the root of its work tree. */
  dir: string;
  root: string;
  format: ObjectFormat;
  /** The index; null: there is none yet. */
  index: { bytes: Buffer; mtimeMs: number } | null;
  /** Ignore patterns that are in no file of the work tree. */
  patterns: string;
  now(): number;
  /** Opens what sees which folders change, and closes the one before; null where nothing does. */
  watch(): FolderWatch | null;
}

/** What sees the changes of folders, which are named as in `Folder`. */
export interface FolderWatch {
  add(path: string, name: string): void;
  /** Names by folder since the last call; null when they are not known. */
  look(): Map<string, Set<string>> | null;
  close(): void;
}

interface Folder {
  /** The path in the compared folder: "" for that folder itself, else with "/" at the end. */
  path: string;
  above: Folder | undefined;
  /** The files that the index names in it, and their numbers. */
  names: string[];
  numbers: number[];
  /** Other known names in it: what is compared, too, and what git ignores. Those of folders end with "/". */
  others: Set<string>;
  /** When it was changed last; 0: it has to be read. */
  time: number;
  isGone: boolean;
}

/** An ignore file. */
interface Rules {
  /** The compared folder that it is about. */
  folder: string;
  time: number;
  guess: IgnoreGuess | undefined;
}

/** A file that may differ from the index. */
export interface Suspect {
  path: string;
  entry: IndexEntry;
  size: number;
}

export class TreeScan {
  readonly #o: ScanOptions;
  readonly #folders = new Map<string, Folder>();
  /** By the number of a file: its mode in the index; its time and size; its mode and inode at the beginning. */
  readonly #modes: Uint32Array;
  readonly #stamps: Float64Array;
  readonly #facts: Uint32Array;
  readonly #oids: Buffer;
  readonly #hash: number;
  /** Ignore files by their paths, absolute. */
  readonly #rules = new Map<string, Rules>();
  readonly #patterns: IgnoreGuess;
  #count = 0;
  #slices = new TimeSlices();
  /** Files that differ from the index, or did once. */
  readonly dirty = new Map<string, IndexEntry | undefined>();
  /** Files that are neither in the index nor ignored, or once were: a run may ignore a file and change it. */
  readonly untracked = new Set<string>();
  /** What was ignored at the beginning; folders end with "/". */
  readonly #ignored = new Set<string>();
  /** Names about which git has to decide; folders end with "/". */
  readonly unknown = new Set<string>();
  /** The names at the beginning of the files that were compared from then on, by inode. */
  readonly formerNames = new Map<number, string>();
  #isBegun = false;
  #watch: FolderWatch | null = null;
  #watches = 0;
  /** Files that change without an event of their folder, by path: submodules, and files with another name. */
  readonly #unseen = new Map<string, { folder: Folder; number: number }>();
  /** False when something could not be read. */
  complete = true;

  private constructor(o: ScanOptions) {
    this.#o = o;
    this.#patterns = new IgnoreGuess(o.patterns);
    const bytes = o.index?.bytes;
    const count =
      bytes && bytes.length > 12 ? Math.min(bytes.readUInt32BE(8), Math.floor(bytes.length / 60)) : 0;
    this.#modes = new Uint32Array(count);
    this.#stamps = new Float64Array(count * 2);
    this.#facts = new Uint32Array(count * 2);
    this.#hash = OID_BYTES[o.format];
    this.#oids = Buffer.alloc(count * this.#hash);
  }

  /** Looks at all files for the first time. Returns null for an index that can't be read. */
  static async begin(o: ScanOptions): Promise<{ scan: TreeScan; suspects: Suspect[] } | null> {
    const scan = new TreeScan(o);
    // From the beginning: else the first look again is at everything once more.
    scan.#watch = o.watch();
    const suspects: Suspect[] = [];
    scan.#folder("");
    if (o.index) {
      const isWhole = await readIndex(o.index.bytes, o.format, (file) => scan.#add(file, suspects));
      if (isWhole === null) return null;
      scan.complete = isWhole;
    }
    for (let at = o.dir; at !== o.root && at !== dirname(at); ) {
      at = dirname(at);
      scan.#watchRules(join(at, IGNORE_FILE), "");
    }
    await scan.#read();
    return { scan, suspects };
  }

  /**
   * Looks again at what the watch has seen to change. `whole`: at everything, as the first time, and where the watch does
   * not know. A look at everything needs no watch, and the one at a run's end is followed by none.
   */
  async again(whole = false): Promise<void> {
    this.#isBegun = true;
    this.#slices = new TimeSlices();
    const touched = this.#touched();
    if (touched === null && !whole) this.#watchAll();
    if (touched === null || whole) {
      for (const folder of this.#folders.values()) {
        this.#enter(folder);
        for (const [i, name] of folder.names.entries()) this.#compare(folder, name, folder.numbers[i] ?? 0);
        await this.#slices.pause();
      }
    } else {
      for (const [path, names] of touched) this.#touch(this.#folder(path), names);
      for (const [path, { folder, number }] of this.#unseen) this.#compare(folder, nameIn(path), number);
    }
    await this.#read();
    if (!this.#rulesChanged()) return;
    this.unknown.clear();
    for (const folder of this.#folders.values()) {
      folder.others.clear();
      folder.time = 0;
    }
    await this.#read();
    this.#rulesChanged();
  }

  /** Names by folder; null when they are not known. */
  #touched(): Map<string, Set<string>> | null {
    const touched = this.#watch?.look() ?? null;
    for (const [folder, names] of touched ?? [])
      for (const name of names) if (this.#hidesMore(folder + name)) return null;
    return touched;
  }

  /** Whether a folder that was gone is there again, or a file has a new name: its other one has no event. */
  #hidesMore(path: string): boolean {
    if (this.#folders.get(`${path}/`)?.isGone) return true;
    const stat = statOf(this.#absolute(path));
    return stat?.isFile() === true && stat.nlink > 1 && !this.#unseen.has(path);
  }

  #watchAll(): void {
    this.#watch?.close();
    this.#watch = this.#watches++ < MAX_WATCHES ? this.#o.watch() : null;
    for (const folder of this.#folders.values()) this.#watchFolder(folder);
  }

  #watchFolder({ path }: Folder): void {
    if (!this.#watch) return;
    const at = this.#absolute(path.slice(0, -1));
    if (statOf(at)?.isDirectory()) this.#watch.add(at, path);
  }

  #touch(folder: Folder, names: ReadonlySet<string>): void {
    this.#enter(folder);
    for (const [i, name] of folder.names.entries())
      if (names.has(name)) this.#compare(folder, name, folder.numbers[i] ?? 0);
  }

  /** git has decided about the unknown names. */
  decided(untracked: readonly string[], ignored: readonly string[]): void {
    for (const path of [...untracked, ...ignored]) this.#know(path);
    for (const path of untracked) this.untracked.add(path);
    if (!this.#isBegun) for (const path of ignored) this.#ignored.add(path);
    // A folder of which nothing is listed is empty.
    for (const path of this.unknown) {
      const isListed = this.#folders.get(folderOf(path))?.others.has(nameIn(path));
      if (path.endsWith("/") && !isListed) this.#folder(path);
      else this.#know(path);
    }
    this.unknown.clear();
  }

  /** Whether a file of this path, or a folder above it, was ignored at the beginning: what was in it is not known. */
  wasIgnored(path: string): boolean {
    if (this.#ignored.has(path)) return true;
    for (let at = path.length; at > 0; at = path.lastIndexOf("/", at - 1))
      if (this.#ignored.has(path.slice(0, at + 1)) || this.#ignored.has(path.slice(0, at))) return true;
    return false;
  }

  /** Whether the index names a file of this name. */
  names(name: string): boolean {
    return this.#folders.values().some((folder) => folder.names.includes(name));
  }

  #add(file: IndexedFile, suspects: Suspect[]): void {
    const { dir, root, index } = this.#o;
    const prefix = dir === root ? "" : `${dir.slice(root === "/" ? 1 : root.length + 1)}/`;
    if (!file.path.startsWith(prefix)) return;
    const path = file.path.slice(prefix.length);
    const folder = this.#folder(folderOf(path));
    const number = this.#count++;
    folder.names.push(path.slice(folder.path.length));
    folder.numbers.push(number);
    this.#modes[number] = file.mode;
    const hash = this.#hash;
    index?.bytes.copy(this.#oids, number * hash, file.oidAt, file.oidAt + hash);
    const stat = this.#stat(folder, path, file.mode);
    this.#stamps[number * 2] = stat?.ctimeMs ?? 0;
    this.#stamps[number * 2 + 1] = stat?.size ?? 0;
    this.#facts[number * 2] = stat?.mode ?? 0;
    this.#facts[number * 2 + 1] = stat?.ino ?? 0;
    this.#noteUnseen(folder, path, number, stat);
    if (stat && file.mode !== 0 && isSame(file, stat, index?.mtimeMs ?? 0)) return;
    const entry = this.#entry(number);
    // A file outside of a sparse checkout is not there, so nothing has changed.
    if (file.sparse && !stat) this.#modes[number] = 0;
    else if (entry === undefined || !stat) this.dirty.set(path, entry);
    else if (entry.kind !== "other") suspects.push({ path, entry, size: stat.size });
  }

  #compare(folder: Folder, name: string, number: number): void {
    const path = folder.path + name;
    const stat = this.#stat(folder, path, this.#modes[number] ?? 0);
    const time = stat?.ctimeMs ?? 0;
    const size = stat?.size ?? 0;
    if (this.#stamps[number * 2] === time && this.#stamps[number * 2 + 1] === size) return;
    this.#stamps[number * 2] = time;
    this.#stamps[number * 2 + 1] = size;
    this.#noteUnseen(folder, path, number, stat);
    if (!this.dirty.has(path)) this.dirty.set(path, this.#entry(number));
    this.formerNames.set(this.#facts[number * 2 + 1] ?? 0, path);
  }

  #noteUnseen(folder: Folder, path: string, number: number, stat: Stats | undefined): void {
    const isSubmodule = this.#modes[number] === LINK_TO_REPOSITORY;
    if (isSubmodule || (stat?.isFile() && stat.nlink > 1)) this.#unseen.set(path, { folder, number });
  }

  /** Of a submodule, looks only at which commit is checked out. */
  #stat(folder: Folder, path: string, mode: number): Stats | undefined {
    if (folder.isGone) return undefined;
    const at = this.#absolute(path);
    return mode === LINK_TO_REPOSITORY ? headOf(at) : statOf(at);
  }

  #entry(number: number): IndexEntry | undefined {
    const mode = this.#modes[number] ?? 0;
    if (mode === 0) return undefined;
    const oid = this.#oids.toString("hex", number * this.#hash, (number + 1) * this.#hash);
    const kind = KINDS.get(mode) ?? "other";
    const before = this.#facts[number * 2] ?? 0;
    const isFile = kind === "file" || kind === "exec";
    const ino = this.#facts[number * 2 + 1];
    return { kind, oid, ino, ...(isFile && before !== 0 && { mode: before & PERMISSIONS }) };
  }

  /** Notes the time of a folder before it is read. */
  #enter(folder: Folder): void {
    const stat = folder.above?.isGone ? undefined : statOf(this.#absolute(folder.path.slice(0, -1)));
    const isBack = folder.isGone && stat?.isDirectory();
    folder.isGone = !stat?.isDirectory();
    if (isBack) this.#watchFolder(folder);
    const time = stat?.ctimeMs ?? 0;
    if (folder.time !== time) folder.time = 0;
  }

  /** Reads the folders that have changed, and the new ones among them. */
  async #read(): Promise<void> {
    for (const folder of this.#folders.values()) {
      if (folder.time !== 0 || folder.isGone) continue;
      this.#readFolder(folder);
      await this.#slices.pause();
    }
  }

  #readFolder(folder: Folder): void {
    const at = this.#absolute(folder.path.slice(0, -1));
    const time = statOf(at)?.ctimeMs ?? 0;
    folder.time = this.#o.now() - time < RECENT_MS ? 0 : time;
    const known = new Set(folder.names);
    const entries = this.#entriesOf(at);
    if (entries.some(({ name }) => name === IGNORE_FILE) && this.#ignoresAll(folder)) return;
    for (const { name, isFolder } of entries) {
      if (name === ".git" || (known.has(name) && !isFolder)) continue;
      const path = `${folder.path}${name}${isFolder ? "/" : ""}`;
      if (folder.others.has(isFolder ? `${name}/` : name) || this.#folders.has(path)) continue;
      // A submodule has a folder; in place of any other file, one is new.
      if (known.has(name) && this.#isSubmodule(folder, name)) continue;
      this.#found(folder, path);
    }
  }

  /** Watches a folder's ignore file. Returns true when it ignores everything, as those of tools do. */
  #ignoresAll(folder: Folder): boolean {
    const file = this.#absolute(folder.path + IGNORE_FILE);
    this.#watchRules(file, folder.path);
    const isAll = (textOf(file) ?? "").replace(/^#.*$/gm, "").trim() === "*";
    if (isAll && !this.#isBegun) this.#ignored.add(folder.path);
    return isAll;
  }

  #isSubmodule({ names, numbers }: Folder, name: string): boolean {
    return this.#modes[numbers[names.indexOf(name)] ?? 0] === LINK_TO_REPOSITORY;
  }

  #entriesOf(at: string): { name: string; isFolder: boolean }[] {
    try {
      const plain: Dirent[] = readdirSync(pathOf(at), { withFileTypes: true });
      if (!plain.some(({ name }) => name.includes("\ufffd")))
        return plain.map((one) => ({ name: one.name, isFolder: one.isDirectory() }));
      const odd = readdirSync(pathOf(at), { encoding: "buffer" }).map(nameOf);
      return odd.map((name) => ({ name, isFolder: statOf(`${at}/${name}`)?.isDirectory() === true }));
    } catch (thrown) {
      if (errnoOf(thrown) === undefined) throw thrown;
      this.complete = false;
      return [];
    }
  }

  /** A name that is not in the index. A repository of its own is left to git. */
  #found(folder: Folder, path: string): void {
    const isFolder = path.endsWith("/");
    if (this.#mayBeIgnored(path) || (isFolder && statOf(`${this.#absolute(path)}.git`))) {
      this.unknown.add(path);
    } else if (isFolder) this.#folder(path);
    else {
      folder.others.add(nameIn(path));
      this.untracked.add(path);
    }
  }

  #mayBeIgnored(path: string): boolean {
    if (this.#patterns.mayMatch(path)) return true;
    return this.#rules.entries().some(([file, rules]) => {
      rules.guess ??= new IgnoreGuess(textOf(file));
      return path.startsWith(rules.folder) && rules.guess.mayMatch(path.slice(rules.folder.length));
    });
  }

  #know(path: string): void {
    this.#folder(folderOf(path)).others.add(nameIn(path));
  }

  #folder(path: string): Folder {
    const known = this.#folders.get(path);
    if (known) return known;
    const above = path === "" ? undefined : this.#folder(folderOf(path));
    const folder: Folder = {
      path,
      above,
      names: [],
      numbers: [],
      others: new Set<string>(),
      time: 0,
      isGone: false,
    };
    this.#folders.set(path, folder);
    // Before it is read: what is made in it later is seen.
    this.#watchFolder(folder);
    this.#enter(folder);
    return folder;
  }

  #watchRules(file: string, folder: string): void {
    if (this.#rules.has(file)) return;
    const time = this.#isBegun ? -1 : (statOf(file)?.ctimeMs ?? 0);
    this.#rules.set(file, { folder, time, guess: undefined });
  }

  #rulesChanged(): boolean {
    let isChanged = false;
    for (const [file, rules] of this.#rules) {
      const time = statOf(file)?.ctimeMs ?? 0;
      if (time === rules.time) continue;
      this.#rules.set(file, { ...rules, time, guess: undefined });
      isChanged = true;
    }
    return isChanged;
  }

  #absolute(path: string): string {
    return path === "" ? this.#o.dir : `${this.#o.dir}/${path}`;
  }
}

const KINDS = new Map<number, IndexEntry["kind"]>([
  [0o100644, "file"],
  [0o100755, "exec"],
  [0o120000, "link"],
]);

/**
 * Whether the index knows the file as it is. What was written when the index was may differ: within a tick of the clock,
 * or within a second where the file system knows no parts of it. After a clone, that would be most files.
 */
function isSame(file: IndexedFile, stat: Stats, indexMs: number): boolean {
  const time = file.mtime * 1000 + file.mtimeNs / 1e6;
  const isOlder = file.mtimeNs === 0 ? file.mtime < Math.floor(indexMs / 1000) : time + RECENT_MS < indexMs;
  const exact = Math.abs(stat.mtimeMs - time) < NANOSECONDS_LOST_MS;
  return (
    (exact || (file.mtimeNs === 0 && Math.floor(stat.mtimeMs / 1000) === file.mtime)) &&
    isOlder &&
    stat.size % 2 ** 32 === file.size &&
    (stat.mode & TYPE) === (file.mode & TYPE) &&
    (stat.isSymbolicLink() || (stat.mode & EXECUTABLE) === (file.mode & EXECUTABLE)) &&
    (file.inode === 0 || stat.ino % 2 ** 32 === file.inode) &&
    (file.ctime === 0 || Math.floor(stat.ctimeMs / 1000) === file.ctime)
  );
}

/** What the system says of a file; undefined where there is none, or it can't be reached. */
export function statOf(path: string): Stats | undefined {
  try {
    return lstatSync(pathOf(path), { throwIfNoEntry: false });
  } catch (thrown) {
    if (errnoOf(thrown) === undefined) throw thrown;
    return undefined;
  }
}

/** The file that says what a submodule has checked out. Its folder, where that can't be found. */
function headOf(path: string): Stats | undefined {
  const git = join(path, ".git");
  const named = statOf(git)?.isFile() ? /^gitdir: (.+)/.exec(textOf(git) ?? "")?.[1] : ".git";
  if (named === undefined) return statOf(path);
  return statOf(join(named.startsWith("/") ? "" : path, named, "HEAD")) ?? statOf(path);
}

/** "" for a file that is not there, null for one that can't be read. */
function textOf(file: string): string | null {
  return statOf(file) === undefined ? "" : (contentOf(file, MAX_IGNORE_BYTES)?.toString() ?? null);
}

/** The content of a file, in place; null where it can't be read or has more than `most` bytes. */
export function contentOf(file: string, most: number): Buffer | null {
  try {
    return readRegularSync(file, most);
  } catch (thrown) {
    if (errnoOf(thrown) === undefined && !(thrown instanceof SyscallError)) throw thrown;
    return null;
  }
}

/** The folder of a path, with a slash at its end; "" for the topmost. */
function folderOf(path: string): string {
  return path.slice(0, path.lastIndexOf("/", path.length - 2) + 1);
}

/** The name of a file, or of a folder with the slash. */
function nameIn(path: string): string {
  return path.slice(folderOf(path).length);
}
