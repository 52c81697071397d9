import { constants } from "node:fs";
import { type FileHandle, mkdir, open, readdir } from "node:fs/promises";
import { join } from "node:path";
import { errnoOf } from "../errors.ts";
import { openedPath } from "./real-path.ts";

const OPEN_FOLDER = constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW;

/** An open folder. What is made in it is made in this very folder, whatever its path has become. */
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

  /** A name in it, as a path. Beside Linux there is no way to name a file by its open folder. */
  at(name: string): string {
    return process.platform === "linux"
      ? `/proc/self/fd/${this.#handle.fd}/${name}`
      : join(this.#opened, name);
  }

  /** Its real path. Beside Linux PERMISSION when another folder has taken its place. */
  async path(): Promise<string> {
    return openedPath(this.#handle.fd, this.#opened, await this.#handle.stat());
  }

  async names(): Promise<string[]> {
    const names = await readdir(this.at("."));
    // Beside Linux it was listed by its path.
    if (process.platform !== "linux") await this.path();
    return names;
  }

  /** The folder of this name in it, made when it is not there. */
  async enter(name: string): Promise<Folder> {
    const path = this.at(name);
    await mkdirUnlessThere(path);
    return Folder.open(path, join(this.#opened, name));
  }

  async close(): Promise<void> {
    await this.#handle.close();
  }
}

async function mkdirUnlessThere(path: string): Promise<void> {
  try {
    await mkdir(path);
  } catch (thrown) {
    if (errnoOf(thrown) !== "EEXIST") throw thrown;
  }
}
