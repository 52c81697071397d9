/** A document that is replaced without a sync and survives a power loss. */

import { errnoOf } from "../../lib/error-detail.ts";
import { isOfNewerSchema, readDocument, replaceDocumentNow, syncFile, temporaryOf } from "./document.ts";
import { type FsPort, realFs, removeLeftover } from "./fs-port.ts";

/**
 * A document that is replaced without waiting for the disk, but survives a power loss: the durable version
 * stays beside the new one until that is durable too. It has one writer; `readDurable` reads it. No file is open
 * between calls.
 */
export class DurableDocument {
  readonly #path: string;
  readonly #fs: FsPort;
  /** The current file is durable, or an earlier writer left it. */
  #durable: boolean;
  #replacements = 0;
  /** The last replacement whose sync has begun. */
  #synced = 0;
  #syncing: Promise<void> | undefined;
  /** The previous version may be beside it. */
  #hasPrevious: boolean;

  /** `there`: an earlier writer has left a document at this path. */
  constructor(path: string, o: { fs?: FsPort; there?: boolean } = {}) {
    this.#path = path;
    this.#fs = o.fs ?? realFs;
    this.#durable = o.there ?? false;
    this.#hasPrevious = o.there ?? false;
  }

  /** Replaces the text; readers see the old or the new one, also after a kill. Synchronous, so replacements never overlap. */
  replace(text: string): void {
    replaceDocumentNow(this.#path, text, this.#fs, (temporary) => this.#place(temporary));
    this.#replacements++;
  }

  /**
   * Makes the last replacement's content durable and returns its number. The caller then makes its name durable and
   * calls `settle` with that number.
   */
  async sync(): Promise<number> {
    const replacement = this.#replacements;
    if (this.#synced !== replacement) {
      this.#synced = replacement;
      this.#syncing = syncFile(this.#path, this.#fs);
    }
    await this.#syncing;
    return replacement;
  }

  /**
   * Marks this replacement as durable and removes the previous version. Returns false when a newer replacement came
   * meanwhile, which must be synced too.
   */
  settle(replacement: number): boolean {
    if (replacement !== this.#replacements) return false;
    if (this.#durable) return true;
    this.#durable = true;
    if (this.#hasPrevious) removeLeftover(this.#fs, previousOf(this.#path));
    this.#hasPrevious = false;
    return true;
  }

  #place(temporary: string): void {
    const saved = this.#durable && this.#savePrevious();
    try {
      this.#fs.rename(temporary, this.#path);
    } catch (error) {
      if (saved) this.#fs.rename(previousOf(this.#path), this.#path);
      throw error;
    }
    this.#durable = false;
    this.#hasPrevious ||= saved;
  }

  /** Renames the current version to the previous one. Readers use that until the new version has its name. */
  #savePrevious(): boolean {
    try {
      this.#fs.rename(this.#path, previousOf(this.#path));
      return true;
    } catch (error) {
      // The document was removed, so there is no version to save.
      if (errnoOf(error) === "ENOENT") return false;
      throw error;
    }
  }
}

/**
 * Reads a document; null when there is none. When a power loss damaged it and `parse` throws, the previous version is
 * read. Fails with INVALID when both are damaged, and for a newer schema.
 */
export async function readDurable<T>(
  path: string,
  parse: (text: string) => T,
  fs: FsPort = realFs,
): Promise<T | null> {
  const read = async (file: string): Promise<Attempt<T | null>> => {
    const found = await attempt(() => readDocument(file, fs));
    if ("error" in found) return found;
    if (found.value === null) return { value: null };
    const { text } = found.value;
    return isOfNewerSchema(text) ? { value: parse(text) } : attempt(() => parse(text));
  };
  const now = await read(path);
  if ("value" in now && now.value !== null) return now.value;
  const before = await read(previousOf(path));
  if ("value" in before && before.value !== null) return before.value;
  // The writer may have been between its two renames, and may have finished now.
  const again = "error" in now ? now : await read(path);
  if ("error" in again) throw again.error;
  return again.value;
}

/**
 * Repairs an earlier writer's document before a new writer uses it. A damaged document is replaced by its previous
 * version; an intact one is made durable.
 */
export async function repairDurable(path: string, fs: FsPort = realFs): Promise<void> {
  const whole = await attempt(async () => JSON.parse((await readDocument(path, fs))?.text ?? ""));
  if ("value" in whole) await syncFile(path, fs);
  else if (fs.stat(previousOf(path)) !== null) fs.rename(previousOf(path), path);
  if (fs.stat(temporaryOf(path)) !== null) removeLeftover(fs, temporaryOf(path));
}

/** Returns the file name of the previous version. */
function previousOf(path: string): string {
  return `${path}.before`;
}

type Attempt<T> = { value: T } | { error: unknown };

async function attempt<T>(run: () => T | Promise<T>): Promise<Attempt<T>> {
  try {
    return { value: await run() };
  } catch (error) {
    return { error };
  }
}
