/** Opens folders without following links, so that a file is changed where it was looked at. */

import { constants } from "node:fs";
import { type FileHandle, mkdir, open, rmdir } from "node:fs/promises";
import { join } from "node:path";
import { errnoOf } from "../../lib/error-detail.ts";
import { pathOf } from "../../lib/file-name.ts";

const FOLDER = constants.O_RDONLY | constants.O_DIRECTORY;
const LINUX = process.platform === "linux";

/** An open folder. On Linux, names are looked up in this very folder, even if its path now leads elsewhere. */
export class OpenFolder {
  readonly #handle: FileHandle;
  readonly #path: string;

  private constructor(handle: FileHandle, path: string) {
    this.#handle = handle;
    this.#path = path;
  }

  /**
   * Opens the folder `parts` below `root`, which itself may be a link. `create` makes missing folders; otherwise null
   * is returned for them. Fails with the system's error where a part is a link or a file.
   */
  static async below(root: string, parts: readonly string[], create: boolean): Promise<OpenFolder | null> {
    let at = new OpenFolder(await open(root, FOLDER), root);
    for (const part of parts) {
      try {
        if (create)
          await mkdir(pathOf(at.of(part))).catch((thrown) => {
            if (errnoOf(thrown) !== "EEXIST") throw thrown;
          });
        const handle = await open(pathOf(at.of(part)), FOLDER | constants.O_NOFOLLOW);
        const next = new OpenFolder(handle, join(at.#path, part));
        await at.close();
        at = next;
      } catch (thrown) {
        await at.close();
        if (!create && errnoOf(thrown) === "ENOENT") return null;
        throw thrown;
      }
    }
    return at;
  }

  /** The path of a name in it. */
  of(name: string): string {
    return LINUX ? `/proc/self/fd/${this.#handle.fd}/${name}` : join(this.#path, name);
  }

  async removeEmpty(name: string): Promise<void> {
    try {
      await rmdir(pathOf(this.of(name)));
    } catch (thrown) {
      if (errnoOf(thrown) === undefined) throw thrown;
    }
  }

  async close(): Promise<void> {
    await this.#handle.close();
  }
}
