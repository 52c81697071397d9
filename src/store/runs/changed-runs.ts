/** Marks of runs whose closed records are written again, so that a listing need not look at every record. */

import { join } from "node:path";
import { errnoOf } from "../../lib/error-detail.ts";
import { SyscallError } from "../../plugin/index.ts";
import { indexNameOf } from "../files/data-dir.ts";
import { makeFolder } from "../files/document.ts";
import { type FsPort, withFile } from "../files/fs-port.ts";
import { UUID } from "./own-run.ts";

/** A mark is made before its record is written, and a listing may come in between: it stays for this time. */
const SETTLED_MS = 60_000;

/** An empty file for each run, beside the index. Listings make the folder and remove old marks. */
export class ChangedRuns {
  readonly #folder: string | null;
  readonly #fs: FsPort;

  /** `folder`: the user's folder of indexes; null: there is none, so listings look at every record. */
  constructor(folder: string | null, dataDir: string, fs: FsPort) {
    this.#folder = folder && join(folder, `${indexNameOf(dataDir)}.changed`);
    this.#fs = fs;
  }

  /** Called before a closed record is written. Never fails: a listing checks each record that it shows. */
  add(uuid: string): void {
    const folder = this.#folder;
    // If there is no such folder, no listing uses these marks.
    if (folder === null || this.#fs.stat(folder) === null) return;
    ifPossible(() => withFile(this.#fs, join(folder, uuid), "replace", () => undefined));
  }

  /** The marked runs, and since when; null: there were no marks until now, so every record may have changed. */
  async list(): Promise<Map<string, number> | null> {
    const folder = this.#folder;
    if (folder === null) return null;
    const names = await this.#fs.list(folder).catch(() => null);
    if (names === null) ifPossible(() => makeFolder(folder, this.#fs));
    const marks = names?.filter((name) => UUID.test(name));
    return marks
      ? new Map(marks.map((uuid) => [uuid, this.#fs.stat(join(folder, uuid))?.mtimeMs ?? Date.now()]))
      : null;
  }

  /** Removes the marks that were old when they were listed, after their records were read. */
  settle(marks: ReadonlyMap<string, number>, listedMs: number): void {
    for (const [uuid, atMs] of marks)
      if (listedMs - atMs > SETTLED_MS) ifPossible(() => this.#fs.remove(join(this.#folder ?? "", uuid)));
  }
}

function ifPossible(use: () => void): void {
  try {
    use();
  } catch (error) {
    if (!(error instanceof SyscallError) && errnoOf(error) === undefined) throw error;
  }
}
