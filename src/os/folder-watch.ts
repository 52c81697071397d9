/** Watches folders for changes of what is in them, by inotify(7). */

import { close, readFileSync, readSync } from "node:fs";
import { bytesOf, nameOf } from "../lib/file-name.ts";
import { libc } from "./libc.ts";

/** What has changed since the last look: names by folder. */
export type Touched = Map<string, Set<string>>;

/** Maximum watches of this process. By default a user has 128 for all programs. */
const MAX_OPEN = 16;
const MAX_FOLDERS = 50_000;
const BUFFER_BYTES = 64 * 1024;
const HEADER_BYTES = 16;

const MODIFY = 0x2;
const ATTRIB = 0x4;
const CLOSE_WRITE = 0x8;
const MOVED_FROM = 0x40;
const MOVED_TO = 0x80;
const CREATE = 0x100;
const DELETE = 0x200;
const DELETE_SELF = 0x400;
const MOVE_SELF = 0x800;
const UNMOUNT = 0x2000;
const OVERFLOW = 0x4000;
const IGNORED = 0x8000;
const ONLY_FOLDERS = 0x01000000;
const NO_LINKS = 0x02000000;
const OF_FOLDER = 0x40000000;

const WATCHED =
  MODIFY | ATTRIB | CLOSE_WRITE | MOVED_FROM | MOVED_TO | CREATE | DELETE | DELETE_SELF | MOVE_SELF;
const FLAGS = WATCHED | ONLY_FOLDERS | NO_LINKS;
/** A watched folder is gone or has another path, or events are lost: the watches say no longer what they did. */
const BREAKS = DELETE_SELF | MOVE_SELF | UNMOUNT | OVERFLOW | IGNORED;
const NON_BLOCKING = 0o4000;
const CLOSE_ON_EXEC = 0o2000000;

let open = 0;

/**
 * It does not see what other machines change on a network file system, what is written through a hard link elsewhere, or
 * into a mapping before its file is closed. Linux only. The caller closes it.
 */
export class FolderWatch {
  readonly #fd: number;
  readonly #folders = new Map<number, string>();
  readonly #most: number;
  #isBroken = false;
  #isClosed = false;

  /** Returns null where there is none left. */
  static open(): FolderWatch | null {
    if (open >= MAX_OPEN) return null;
    const fd = libc()?.watchFiles(NON_BLOCKING | CLOSE_ON_EXEC) ?? -1;
    return fd < 0 ? null : new FolderWatch(fd);
  }

  private constructor(fd: number) {
    this.#fd = fd;
    this.#most = mostFolders();
    open++;
  }

  /** Watches a folder from now on, under this name. One that can't be watched breaks it. */
  add(path: string, name: string): void {
    if (this.#isBroken) return;
    const wd =
      this.#folders.size < this.#most ? (libc()?.watchFolder(this.#fd, bytesOf(path), FLAGS) ?? -1) : -1;
    if (wd < 0) this.#isBroken = true;
    else this.#folders.set(wd, name);
  }

  /** Returns what has changed since the last call; null when that is not known, now and later. */
  look(): Touched | null {
    const touched: Touched = new Map();
    while (!this.#isBroken && libc()?.readable(this.#fd)) {
      const bytes = readSync(this.#fd, buffer);
      for (let at = 0; at < bytes; ) at += this.#take(at, touched);
    }
    return this.#isBroken ? null : touched;
  }

  /** Safe to call again. The system waits 10 ms or more for its other processors: this thread does not. */
  close(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#isBroken = true;
    open--;
    close(this.#fd);
  }

  /** Takes one event, and returns its bytes. */
  #take(at: number, touched: Touched): number {
    const mask = buffer.readUInt32LE(at + 4);
    const length = buffer.readUInt32LE(at + 12);
    const folder = this.#folders.get(buffer.readInt32LE(at));
    // A folder that was moved or removed takes what is below it along.
    const isLost = (mask & OF_FOLDER) !== 0 && (mask & (MOVED_FROM | MOVED_TO | DELETE)) !== 0;
    if ((mask & BREAKS) !== 0 || isLost || folder === undefined) {
      this.#isBroken = true;
    } else {
      const padded = buffer.subarray(at + HEADER_BYTES, at + HEADER_BYTES + length);
      const end = padded.indexOf(0);
      const names = touched.get(folder) ?? new Set();
      names.add(nameOf(end < 0 ? padded : padded.subarray(0, end)));
      touched.set(folder, names);
    }
    return HEADER_BYTES + length;
  }
}

/** All watches share one buffer, because each event is processed at once. */
const buffer = Buffer.alloc(BUFFER_BYTES);

/** Returns a quarter of the watches that the user may have: editors need some, too. */
function mostFolders(): number {
  const text = readFileSync("/proc/sys/fs/inotify/max_user_watches", "latin1");
  return Math.min(MAX_FOLDERS, Math.floor(Number(text) / 4));
}
