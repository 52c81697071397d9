import { type OpenFlag, SyscallError, type VFSFile } from "../plugin/index.ts";

interface OpenFile {
  file: VFSFile;
  /** The whole path it was opened by. */
  path: string;
  /** The path of the device that serves it, and the plugin that brought the device. */
  device: string;
  plugin: string;
  flags: OpenFlag;
}

const FIRST_FD = 3;

/** The open files of one process (seeds 2.17): numbers start at 3, only grow and are never reused. */
export class FdTable {
  readonly #files = new Map<number, OpenFile>();
  #next = FIRST_FD;

  add(open: OpenFile): number {
    const fd = this.#next++;
    this.#files.set(fd, open);
    return fd;
  }

  get(fd: number): OpenFile {
    const open = this.#files.get(fd);
    if (!open) throw new SyscallError("NOT_FOUND", `File descriptor ${fd} is not open.`);
    return open;
  }

  /** Takes the descriptor out of the table; the caller closes the file. Only one caller gets it. */
  take(fd: number): OpenFile {
    const open = this.get(fd);
    this.#files.delete(fd);
    return open;
  }

  list(): { fd: number; path: string }[] {
    return [...this.#files].map(([fd, { path }]) => ({ fd, path }));
  }

  get size(): number {
    return this.#files.size;
  }
}
