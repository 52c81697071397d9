import { basename, dirname } from "node:path";
import type { FsPort } from "../../src/store/files/fs-port.ts";
import { systemError } from "./support.ts";

interface Inode {
  ino: number;
  data: Uint8Array;
  /** What a power loss leaves of it. */
  durable: Uint8Array;
  entries?: Map<string, Inode>;
  durableEntries?: Map<string, Inode>;
}

/** How names come back after a power loss: only those synced, or all of them while contents are what was synced. */
export type Loss = "names" | "contents";

/** A disk in memory that keeps nothing but what was synced: what a power loss leaves at worst. */
export class MemoryDisk {
  readonly #root: Inode = folder(1);
  readonly #open = new Map<number, Inode>();
  #next = 10;

  /** `there`: a folder that has long been there. */
  constructor(there: string) {
    this.#mkdir(there);
    settle(this.#root);
  }

  /** The disk as it is after a power loss now; this one continues. */
  afterLoss(loss: Loss): MemoryDisk {
    const disk = new MemoryDisk("/");
    const left = (inode: Inode): Inode => {
      const entries = loss === "names" ? inode.durableEntries : inode.entries;
      const data = inode.durable;
      if (entries === undefined) return { ino: inode.ino, data, durable: data };
      const kept = new Map([...entries].map(([name, entry]) => [name, left(entry)]));
      return { ino: inode.ino, data, durable: data, entries: kept, durableEntries: new Map(kept) };
    };
    Object.assign(disk.#root, left(this.#root));
    disk.#next = this.#next;
    return disk;
  }

  readonly fs: FsPort = {
    open: (path, mode) => {
      const parent = this.#at(dirname(path));
      const entries = parent.entries ?? raise("ENOTDIR");
      const name = basename(path);
      let inode = path === "/" ? this.#root : entries.get(name);
      if (mode === "create" && inode) raise("EEXIST");
      if (inode === undefined) {
        if (mode === "read" || mode === "folder") raise("ENOENT");
        inode = file(this.#next++);
        entries.set(name, inode);
      }
      if (mode === "replace") inode.data = new Uint8Array();
      const fd = this.#next++;
      this.#open.set(fd, inode);
      return fd;
    },
    close: (fd) => void this.#open.delete(fd),
    size: (fd) => this.#file(fd).data.length,
    write: (fd, data) => {
      const inode = this.#file(fd);
      inode.data = Buffer.concat([inode.data, data]);
      return data.length;
    },
    writeAsync: async (fd, data) => this.fs.write(fd, data),
    read: (fd, into, position) => {
      const piece = this.#file(fd).data.subarray(position, position + into.length);
      into.set(piece);
      return piece.length;
    },
    readAsync: async (fd, into, position) => this.fs.read(fd, into, position),
    truncate: (fd, length) => {
      const inode = this.#file(fd);
      inode.data = inode.data.slice(0, length);
    },
    fdatasync: (fd) => this.#sync(fd),
    fdatasyncNow: () => raise("ENOSYS"),
    fsync: (fd) => this.#sync(fd),
    mkdir: (dir) => this.#mkdir(dir),
    rename: (from, to) => {
      const inode = this.#at(from);
      this.#entries(dirname(from)).delete(basename(from));
      this.#entries(dirname(to)).set(basename(to), inode);
    },
    link: () => raise("ENOTSUP"),
    swap: () => "unsupported",
    hasWriters: () => null,
    remove: (path) => {
      if (!this.#entries(dirname(path)).delete(basename(path))) raise("ENOENT");
    },
    list: async (dir) => [...this.#entries(dir).keys()],
    stat: (path) => {
      try {
        const inode = this.#at(path);
        return {
          size: inode.data.length,
          mtimeMs: 0,
          ino: inode.ino,
          isFolder: inode.entries !== undefined,
          isLink: false,
          names: 1,
        };
      } catch {
        return null;
      }
    },
  };

  /** Takes effect a while after it was asked for, with what is there when it is. */
  async #sync(fd: number): Promise<void> {
    const inode = this.#file(fd);
    const { data } = inode;
    const entries = inode.entries && new Map(inode.entries);
    await new Promise((resolve) => setImmediate(resolve));
    inode.durable = data;
    inode.durableEntries = entries;
  }

  #file(fd: number): Inode {
    return this.#open.get(fd) ?? raise("EBADF");
  }

  #entries(path: string): Map<string, Inode> {
    return this.#at(path).entries ?? raise("ENOTDIR");
  }

  #at(path: string): Inode {
    let inode = this.#root;
    for (const name of path.split("/").filter((part) => part !== "")) {
      inode = inode.entries?.get(name) ?? raise("ENOENT");
    }
    return inode;
  }

  #mkdir(dir: string): boolean {
    let inode = this.#root;
    let made = false;
    for (const name of dir.split("/").filter((part) => part !== "")) {
      const entries = inode.entries ?? raise("ENOTDIR");
      const next = entries.get(name) ?? folder(this.#next++);
      made = !entries.has(name);
      entries.set(name, next);
      inode = next;
    }
    return made;
  }
}

function settle(inode: Inode): void {
  inode.durable = inode.data;
  inode.durableEntries = inode.entries && new Map(inode.entries);
  for (const entry of inode.entries?.values() ?? []) settle(entry);
}

function folder(ino: number): Inode {
  return { ...file(ino), entries: new Map(), durableEntries: new Map() };
}

function file(ino: number): Inode {
  return { ino, data: new Uint8Array(), durable: new Uint8Array() };
}

function raise(code: string): never {
  throw systemError(code);
}
