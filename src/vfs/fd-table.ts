/** The open files of one process. */

import { type OpenFlag, SyscallError, type VFSFile } from "../plugin/index.ts";

export interface OpenFile<Grant> {
  file: VFSFile;
  /** The full path that was opened. */
  path: string;
  /** The path of the device that serves it, and the device's plugin. */
  device: string;
  plugin: string;
  flags: OpenFlag;
  /** The grant under which it was opened; absent if none was needed. */
  grant?: Grant;
}

const FIRST_FD = 3;

/** The open files of one process. Descriptors start at 3, only grow and are never reused. */
export class FdTable<Grant = never> {
  /** A list, because most processes have one file and a map would need much more memory. */
  #files: { readonly fd: number; readonly open: OpenFile<Grant> }[] = [];
  #next = FIRST_FD;

  add(open: OpenFile<Grant>): number {
    const fd = this.#next++;
    this.#files.push({ fd, open });
    return fd;
  }

  get(fd: number): OpenFile<Grant> {
    const found = this.#files.find((one) => one.fd === fd);
    if (!found) throw new SyscallError("NOT_FOUND", `File descriptor ${fd} is not open.`);
    return found.open;
  }

  has(fd: number): boolean {
    return this.#files.some((one) => one.fd === fd);
  }

  /** Removes the descriptor from the table. Only one caller gets the file, and closes it. */
  take(fd: number): OpenFile<Grant> {
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
