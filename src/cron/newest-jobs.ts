/** The number of the newest version of each project's jobs: `cron/newest/` in the user's data folder. */

import { join } from "node:path";
import { z } from "zod";
import {
  makeFolder,
  parseDocument,
  readDocument,
  replaceDocument,
  syncDirectory,
} from "../store/files/document.ts";
import { type FsPort, realFs } from "../store/files/fs-port.ts";
import { CRON } from "./cron-folder.ts";

/** A version of a file of jobs. `id` stays when the project is moved or copied. */
export const Version = z.object({ id: z.string(), n: z.int().nonnegative() });
export type Version = z.infer<typeof Version>;

/**
 * A seal shows that this user's Rnix has written a file, and not that it is the newest: an older one, put back, would
 * bring removed jobs back.
 */
export class NewestJobs {
  readonly #folder: string;
  readonly #name: string;
  readonly #fs: FsPort;

  /** `dir` is the folder of the jobs. */
  constructor(userDataDir: string, dir: string, fs: FsPort = realFs) {
    this.#folder = join(userDataDir, CRON, "newest");
    this.#name = `${Bun.CryptoHasher.hash("sha256", dir, "hex").slice(0, 32)}.json`;
    this.#fs = fs;
  }

  /** The newest version here; null before the first. */
  here(): Promise<Version | null> {
    return this.#read(this.#name);
  }

  /** Whether no newer version is known: here, or of a folder that was moved or copied here, anywhere. */
  async isNewest(version: Version | undefined): Promise<boolean> {
    const here = await this.here();
    if (here) return version?.id === here.id && version.n >= here.n;
    if (version === undefined) return true;
    const names = this.#fs.stat(this.#folder) ? await this.#fs.list(this.#folder) : [];
    const known = await Promise.all(
      names.filter((name) => !name.startsWith("~")).map((name) => this.#read(name)),
    );
    const same = known.flatMap((one) => (one?.id === version.id ? [one.n] : []));
    return same.length > 0 && same.every((n) => version.n >= n);
  }

  async write(version: Version): Promise<void> {
    // With the folders above it: a file of jobs whose number is lost does not run.
    if (makeFolder(this.#folder, this.#fs)) {
      for (const dir of ["..", "../..", "../../.."]) await syncDirectory(join(this.#folder, dir), this.#fs);
    }
    await replaceDocument(join(this.#folder, this.#name), `${JSON.stringify(version)}\n`, this.#fs);
  }

  async #read(name: string): Promise<Version | null> {
    const path = join(this.#folder, name);
    const found = await readDocument(path, this.#fs);
    return found && parseDocument(Version, found.text, path);
  }
}
