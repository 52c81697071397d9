import { isOfNewerSchema, readDocument, replaceDocumentNow, syncFile, temporaryOf } from "./document.ts";
import { errno, type FsPort, realFs, removeLeftover } from "./fs-port.ts";

/**
 * A document that is replaced at once, without waiting for the disk, and yet is not lost with the power: the
 * version that is durable stays beside the new one until that is durable too. It has one writer; `readSteady`
 * reads it. Between calls no file is open.
 */
export class DurableDocument {
  readonly #path: string;
  readonly #fs: FsPort;
  /** What stands under the name has been made durable, or was there before us. */
  #durable: boolean;
  #replacements = 0;
  /** The last one whose sync was begun. */
  #synced = 0;
  #syncing: Promise<void> | undefined;
  /** The version before may lie beside it. */
  #kept: boolean;

  /** `there`: an earlier writer has left one. */
  constructor(path: string, o: { fs?: FsPort; there?: boolean } = {}) {
    this.#path = path;
    this.#fs = o.fs ?? realFs;
    this.#durable = o.there ?? false;
    this.#kept = o.there ?? false;
  }

  /** A reader sees the old text or the new one, also after a kill. Synchronous, so that two never cross. */
  replace(text: string): void {
    replaceDocumentNow(this.#path, text, this.#fs, (temporary) => this.#place(temporary));
    this.#replacements++;
  }

  /**
   * Makes the content of the last replacement durable, and answers its number. When its name in the folder is too,
   * which is the caller's part, `settle` is called with that.
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
   * The replacement of this number is durable under its name: the version before it is of no use any more. False when
   * another came while the disk worked: that one has taken its place, and must be synced too.
   */
  settle(replacement: number): boolean {
    if (replacement !== this.#replacements) return false;
    if (this.#durable) return true;
    this.#durable = true;
    if (this.#kept) removeLeftover(this.#fs, previousOf(this.#path));
    this.#kept = false;
    return true;
  }

  #place(temporary: string): void {
    const kept = this.#durable && this.#keep();
    try {
      this.#fs.rename(temporary, this.#path);
    } catch (error) {
      if (kept) this.#fs.rename(previousOf(this.#path), this.#path);
      throw error;
    }
    this.#durable = false;
    this.#kept ||= kept;
  }

  /** From here until the new one has the name there is none under it: readers take the one before. */
  #keep(): boolean {
    try {
      this.#fs.rename(this.#path, previousOf(this.#path));
      return true;
    } catch (error) {
      // Whoever removed it has nothing left to lose.
      if (errno(error) === "ENOENT") return false;
      throw error;
    }
  }
}

/**
 * Reads it; null when there is none. One that a power loss has damaged, so that `parse` throws, gives way to the
 * version before it. INVALID when both are damaged, and for a newer schema.
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
  // Its writer may have been between the two names, and done since.
  const again = "error" in now ? now : await read(path);
  if ("error" in again) throw again.error;
  return again.value;
}

/**
 * Before an earlier writer's document is gone on with: what a power loss has damaged, or a kill has kept from being
 * durable, is not to take the place of the version before.
 */
export async function repairDurable(path: string, fs: FsPort = realFs): Promise<void> {
  const whole = await attempt(async () => JSON.parse((await readDocument(path, fs))?.text ?? ""));
  if ("value" in whole) await syncFile(path, fs);
  else if (fs.stat(previousOf(path)) !== null) fs.rename(previousOf(path), path);
  if (fs.stat(temporaryOf(path)) !== null) removeLeftover(fs, temporaryOf(path));
}

/** The name of the version before. */
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
