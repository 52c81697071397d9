import { type OpenFlag, SyscallError, type VFSFile } from "../plugin/index.ts";

export interface OpenFile<Right> {
  file: VFSFile;
  /** The whole path it was opened by. */
  path: string;
  /** The path of the device that serves it, and the plugin that brought the device. */
  device: string;
  plugin: string;
  flags: OpenFlag;
  /** What its opener's rights had to cover; absent where none were asked for. */
  right?: Right;
}

const FIRST_FD = 3;

/** The open files of one process (seeds 2.17): numbers start at 3, only grow and are never reused. */
export class FdTable<Right = never> {
  /** A few at most, and most often one: a map takes more than all the rest of a process that waits. */
  #files: { readonly fd: number; readonly open: OpenFile<Right> }[] = [];
  #next = FIRST_FD;

  add(open: OpenFile<Right>): number {
    const fd = this.#next++;
    this.#files.push({ fd, open });
    return fd;
  }

  get(fd: number): OpenFile<Right> {
    const found = this.#files.find((one) => one.fd === fd);
    if (!found) throw new SyscallError("NOT_FOUND", `File descriptor ${fd} is not open.`);
    return found.open;
  }

  has(fd: number): boolean {
    return this.#files.some((one) => one.fd === fd);
  }

  /** Takes the descriptor out of the table; the caller closes the file. Only one caller gets it. */
  take(fd: number): OpenFile<Right> {
    const open = this.get(fd);
    this.#files = this.#files.filter((one) => one.fd !== fd);
    return open;
  }

  list(): { fd: number; path: string }[] {
    return this.#files.map(({ fd, open: { path } }) => ({ fd, path }));
  }

  get size(): number {
    return this.#files.length;
  }
}
