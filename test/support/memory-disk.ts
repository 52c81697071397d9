import { dirname } from "node:path";
import type { FileFacts, FsPort, OpenMode } from "../../src/store/files/fs-port.ts";

interface Inode {
  ino: number;
  content: Buffer;
  /** What a power loss leaves: as of its last sync. */
  durable: Buffer;
  mtimeMs: number;
}

interface Names {
  files: Map<string, Inode>;
  folders: Set<string>;
}

/** A file or folder was made, renamed or removed in this folder. */
interface NameChange {
  folder: string;
  apply(names: Names): void;
}

/** By what takes room, what changes a file or its name, what waits for the disk, what has nothing to do with it. */
const REFUSED_BY: Record<"grow" | "change" | "sync" | "tick", readonly string[]> = {
  grow: ["ENOSPC", "EROFS", "EIO"],
  change: ["EROFS", "EIO"],
  sync: ["EIO"],
  tick: [],
};

/** What is lost with the process, and what with the power. */
export type Loss =
  /** kill -9: what was written is there. */
  | "nothing"
  /** Everything that was not synced, names included. */
  | "unsynced"
  /**
   * Of what was not synced, some: of the changes of names the first few, as the journals of file systems keep
   * them; of each file what they like, and one that has grown may end in zeros.
   */
  | "some";

/** The folder that is there from the start. */
export const ROOT = "/disk";

/**
 * A disk in memory that dies at a given operation, which is a write, a sync, a new name or a `tick` of the test's own:
 * a write is torn in its middle, anything else is not done, and nothing works after. `after` is the disk that the
 * next start finds. It knows of every byte and every name whether it was synced.
 */
export class MemoryDisk implements FsPort {
  readonly #now: Names = { files: new Map(), folders: new Set() };
  /** Names whose folders have been synced since. */
  readonly #durable: Names = { files: new Map(), folders: new Set() };
  /** The changes from there to now, oldest first. */
  #pending: NameChange[] = [];
  readonly #open = new Map<number, { inode: Inode | null; path: string; at: number; append: boolean }>();
  #fds = 1000;
  #inodes = 0;
  #clock = 1;
  #operations = 0;
  #dead = false;
  /** The operation at which it dies, from 1. */
  diesAt = Number.POSITIVE_INFINITY;
  /** From this operation on it is full, read-only or broken, until it is not any more. */
  refuses: { from: number; code: "ENOSPC" | "EROFS" | "EIO" } | undefined;

  readonly #name: (path: string) => string;

  /** What a sync waits for, as one on a busy disk does. */
  slow: Promise<void> = Promise.resolve();

  /** `name` makes of a path the name it has here: kernels that have it in different folders can share it. */
  constructor(name: (path: string) => string, names: ReadonlyMap<string, Buffer> = new Map()) {
    this.#name = name;
    for (const { files, folders } of [this.#now, this.#durable]) {
      addFolders(folders, ROOT);
      for (const path of names.keys()) addFolders(folders, dirname(path));
      if (files === this.#now.files)
        for (const [path, content] of names) files.set(path, this.#inode(content));
      else for (const [path, inode] of this.#now.files) files.set(path, inode);
    }
  }

  get operations(): number {
    return this.#operations;
  }

  get dead(): boolean {
    return this.#dead;
  }

  /** A moment at which it may die that no file has to do with. Throws when it does, or has. */
  tick(): void {
    this.#count("tick");
  }

  /**
   * What is left after it died; `random` decides what "some" is. What a kill leaves unsynced is still so: a power loss
   * that comes later takes it.
   */
  after(loss: Loss, random: () => number): MemoryDisk {
    if (loss === "nothing") {
      this.#dead = false;
      this.#operations = 0;
      this.diesAt = Number.POSITIVE_INFINITY;
      this.#open.clear();
      return this;
    }
    const kept = loss === "some" ? Math.floor(random() * (this.#pending.length + 1)) : 0;
    for (const { apply } of this.#pending.slice(0, kept)) apply(this.#durable);
    const { files, folders } = this.#durable;
    const reachable = [...files].filter(([path]) => isReachable(folders, path));
    return new MemoryDisk(
      this.#name,
      new Map(reachable.map(([path, inode]) => [path, contentAfter(inode, loss, random)])),
    );
  }

  link(): never {
    throw systemError("ENOTSUP");
  }

  swap(): "unsupported" {
    return "unsupported";
  }

  hasWriters(): null {
    return null;
  }

  open(name: string, mode: OpenMode): number {
    if (this.#dead) throw systemError("EIO");
    const path = this.#name(name);
    const { files, folders } = this.#now;
    const reads = mode === "read" || mode === "folder";
    if (reads && folders.has(path)) return this.#descriptor(null, path, false);
    const found = files.get(path);
    if (reads && !found) throw systemError("ENOENT");
    if (mode === "create" && found) throw systemError("EEXIST");
    if (!found && !folders.has(dirname(path))) throw systemError("ENOENT");
    if (!found || mode === "replace") this.#count(found ? "change" : "grow");
    const inode = found ?? this.#inode(Buffer.alloc(0), Buffer.alloc(0));
    if (!found) this.#change(dirname(path), (names) => names.files.set(path, inode));
    if (mode === "replace") inode.content = Buffer.alloc(0);
    return this.#descriptor(inode, path, mode === "append");
  }

  close(fd: number): void {
    this.#open.delete(fd);
  }

  size(fd: number): number {
    return this.#file(fd).content.length;
  }

  write(fd: number, data: Uint8Array): number {
    const file = this.#file(fd);
    const of = this.#open.get(fd);
    if (!of) throw systemError("EBADF");
    const put = (bytes: Uint8Array): void => {
      const at = of.append ? file.content.length : of.at;
      file.content = Buffer.concat([
        file.content.subarray(0, at),
        bytes,
        file.content.subarray(at + bytes.length),
      ]);
      file.mtimeMs = this.#clock++;
      of.at = at + bytes.length;
    };
    this.#count("grow", () => put(data.subarray(0, data.length >> 1)));
    put(data);
    return data.length;
  }

  async writeAsync(fd: number, data: Uint8Array): Promise<number> {
    return this.write(fd, data);
  }

  read(fd: number, into: Uint8Array, position: number): number {
    const { content } = this.#file(fd);
    // Behind the end there is nothing to read, as pread(2) says; Buffer.copy fails there.
    return content.subarray(position, position + into.length).copy(into);
  }

  async readAsync(fd: number, into: Uint8Array, position: number): Promise<number> {
    return this.read(fd, into, position);
  }

  truncate(fd: number, length: number): void {
    this.#count("change");
    const file = this.#file(fd);
    const content = Buffer.alloc(length);
    file.content.copy(content);
    file.content = content;
    file.mtimeMs = this.#clock++;
  }

  /** As of the call; what is written meanwhile is not in it. */
  async fdatasync(fd: number): Promise<void> {
    this.#count("sync");
    const { inode, path } = this.#opened(fd);
    const content = inode?.content;
    const pending = this.#pending.length;
    await new Promise<void>((resolve) => setImmediate(resolve));
    await this.slow;
    if (this.#dead) throw systemError("EIO");
    if (inode && content) {
      inode.durable = content;
      return;
    }
    // Changes that others have synced meanwhile are not among them any more.
    const before = this.#pending.slice(0, pending);
    const synced = before.filter(({ folder }) => folder === path);
    for (const { apply } of synced) apply(this.#durable);
    this.#pending = this.#pending.filter((change) => !synced.includes(change));
  }

  fdatasyncNow(fd: number): void {
    this.#count("sync");
    const file = this.#file(fd);
    file.durable = file.content;
  }

  fsync(fd: number): Promise<void> {
    return this.fdatasync(fd);
  }

  mkdir(name: string): boolean {
    if (this.#dead) throw systemError("EIO");
    const dir = this.#name(name);
    if (this.#now.folders.has(dir)) return false;
    this.#count("grow");
    for (const folder of missing(this.#now.folders, dir)) {
      this.#change(dirname(folder), (names) => names.folders.add(folder));
    }
    return true;
  }

  rename(from: string, to: string): void {
    this.#count("change");
    const [old, path] = [this.#name(from), this.#name(to)];
    const inode = this.#now.files.get(old);
    if (!inode) throw systemError("ENOENT");
    this.#change(dirname(path), ({ files }) => {
      files.delete(old);
      files.set(path, inode);
    });
  }

  remove(name: string): void {
    this.#count("change");
    const path = this.#name(name);
    if (!this.#now.files.has(path)) throw systemError("ENOENT");
    this.#change(dirname(path), ({ files }) => files.delete(path));
  }

  async list(name: string): Promise<string[]> {
    if (this.#dead) throw systemError("EIO");
    const dir = this.#name(name);
    const { files, folders } = this.#now;
    if (!folders.has(dir)) throw systemError("ENOENT");
    const inside = [...files.keys(), ...folders].filter((path) => dirname(path) === dir && path !== dir);
    return inside.map((path) => path.slice(dir.length + 1));
  }

  stat(name: string): FileFacts | null {
    if (this.#dead) throw systemError("EIO");
    const path = this.#name(name);
    if (this.#now.folders.has(path))
      return { size: 0, mtimeMs: 0, ino: 0, isFolder: true, isLink: false, names: 1 };
    const inode = this.#now.files.get(path);
    if (!inode) return null;
    const { content, mtimeMs, ino } = inode;
    return { size: content.length, mtimeMs, ino, isFolder: false, isLink: false, names: 1 };
  }

  /** `torn` is what of the operation is done when it is the last, or is refused. */
  #count(kind: keyof typeof REFUSED_BY, torn?: () => void): void {
    if (this.#dead) throw systemError("EIO");
    this.#operations++;
    if (this.#operations >= this.diesAt) {
      torn?.();
      this.#dead = true;
      throw systemError("EIO");
    }
    const { from = Number.POSITIVE_INFINITY, code = "EIO" } = this.refuses ?? {};
    if (this.#operations < from || !REFUSED_BY[kind].includes(code)) return;
    if (code === "ENOSPC") torn?.();
    throw systemError(code);
  }

  #inode(content: Buffer, durable = content): Inode {
    return { ino: ++this.#inodes, content, durable, mtimeMs: this.#clock++ };
  }

  #descriptor(inode: Inode | null, path: string, append: boolean): number {
    this.#open.set(++this.#fds, { inode, path, at: 0, append });
    return this.#fds;
  }

  #opened(fd: number): { inode: Inode | null; path: string } {
    const of = this.#open.get(fd);
    if (!of) throw systemError("EBADF");
    return of;
  }

  #file(fd: number): Inode {
    if (this.#dead) throw systemError("EIO");
    const { inode } = this.#opened(fd);
    if (!inode) throw systemError("EISDIR");
    return inode;
  }

  #change(folder: string, apply: (names: Names) => void): void {
    apply(this.#now);
    this.#pending.push({ folder, apply });
  }
}

/** From the highest one down. */
function missing(folders: ReadonlySet<string>, dir: string): string[] {
  return folders.has(dir) ? [] : [...missing(folders, dirname(dir)), dir];
}

function addFolders(folders: Set<string>, dir: string): void {
  for (const folder of ["/", ...missing(new Set([...folders, "/"]), dir)]) folders.add(folder);
}

/** Its folder and all above it are there: else the file is nowhere. */
function isReachable(folders: ReadonlySet<string>, path: string): boolean {
  return missing(folders, dirname(path)).length === 0;
}

function contentAfter({ content, durable }: Inode, loss: Loss, random: () => number): Buffer {
  if (loss === "unsynced") return durable;
  const grown = content.length > durable.length && content.subarray(0, durable.length).equals(durable);
  const way = random();
  if (!grown) return way < 0.5 ? content : durable;
  const kept = durable.length + Math.floor(random() * (content.length - durable.length + 1));
  if (way < 0.7) return content.subarray(0, kept);
  // It has grown on the disk, and what it has grown by was not written.
  return Buffer.concat([content.subarray(0, kept), Buffer.alloc(content.length - kept)]);
}

function systemError(code: string): Error {
  return Object.assign(new Error(`${code}: the disk in memory`), { code });
}
