/** An open folder, in which files are created and replaced. */

import { constants } from "node:fs";
import { type FileHandle, mkdir, open, readdir } from "node:fs/promises";
import { join } from "node:path";
import { errnoOf } from "../errors.ts";
import { openedPath } from "./real-path.ts";

const OPEN_FOLDER = constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW;

/** An open folder. Files are created in this folder, even if its path now leads elsewhere. */
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

  /** The path of a name in it. Only Linux can name a file by its open folder. */
  at(name: string): string {
    return process.platform === "linux"
      ? `/proc/self/fd/${this.#handle.fd}/${name}`
      : join(this.#opened, name);
  }

  /** Its real path. Outside Linux: PERMISSION when another folder has replaced it. */
  async path(): Promise<string> {
    return openedPath(this.#handle.fd, this.#opened, await this.#handle.stat());
  }

  async names(): Promise<string[]> {
    const names = await readdir(this.at("."));
    // Outside Linux it was listed by its path.
    if (process.platform !== "linux") await this.path();
    return names;
  }

  /** Opens the folder of this name in it, and creates it if needed. */
  async enter(name: string): Promise<Folder> {
    const path = this.at(name);
    await mkdirIfMissing(path);
    return Folder.open(path, join(this.#opened, name));
  }

  async close(): Promise<void> {
    await this.#handle.close();
  }
}

async function mkdirIfMissing(path: string): Promise<void> {
  try {
    await mkdir(path);
  } catch (thrown) {
    if (errnoOf(thrown) !== "EEXIST") throw thrown;
  }
}
