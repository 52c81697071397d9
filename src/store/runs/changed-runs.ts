/** The journal of changed runs: which closed records are written again, so that a listing need not look at all. */

import { join } from "node:path";
import { errnoOf } from "../../lib/error-detail.ts";
import { SyscallError } from "../../plugin/index.ts";
import { INDEX_FOLDER, requireNoLink } from "../files/data-dir.ts";
import { type FsPort, withFile, writeAll } from "../files/fs-port.ts";
import { UUID } from "./own-run.ts";

/** A UUID between two newlines: the line before it may be torn. */
const LINE_BYTES = 38;
/**
 * Lines before the last position are read again each time: a writer adds its line before it writes the record, and a
 * reader may come in between.
 */
const REREAD_BYTES = LINE_BYTES * 128;
/** A longer journal is replaced by a new one. */
const MAX_BYTES = 1024 * 1024;

/** How far a reader has read. */
export interface JournalPosition {
  /** The first line of the journal, which is random; "" without a journal. */
  id: string;
  at: number;
}

/** What has changed since a position. */
interface Changes {
  /** null: the journal is another one, so every record may have changed. */
  uuids: string[] | null;
  position: JournalPosition;
}

/** Made by the first reader, and appended to by each kernel of the data folder. */
export class ChangedRuns {
  readonly #dataDir: string;
  readonly #fs: FsPort;
  readonly #path: string;

  constructor(dataDir: string, fs: FsPort) {
    this.#dataDir = dataDir;
    this.#fs = fs;
    this.#path = join(dataDir, INDEX_FOLDER, "changed");
  }

  /** Called before a closed record is written. Never fails: a listing checks each record that it shows. */
  add(uuid: string): void {
    ifPossible(() => {
      // Without a journal there is no reader that relies on it.
      if (this.#fs.stat(this.#path) === null) return;
      requireNoLink(this.#dataDir, [INDEX_FOLDER]);
      withFile(this.#fs, this.#path, "append", (fd) => this.#append(fd, uuid));
    });
  }

  #append(fd: number, uuid: string): void {
    try {
      writeAll(this.#fs, fd, Buffer.from(`\n${uuid}\n`));
    } catch (error) {
      // On a full disk it can still be emptied: then readers look at every record.
      this.#fs.truncate(fd, 0);
      throw error;
    }
  }

  /** The changes since `from`, which is null for a new reader. */
  since(from: JournalPosition | null): Changes {
    const journal = this.#read(this.#path, from?.at) ?? this.#made();
    if (!journal) return { uuids: null, position: { id: "", at: 0 } };
    const { id, size, uuids } = journal;
    const isSame = from !== null && from.id === id && from.at <= size;
    const former = this.#read(`${this.#path}.old`)?.uuids ?? [];
    return { uuids: isSame ? [...new Set([...former, ...uuids])] : null, position: { id, at: size } };
  }

  /** Replaces a long journal by a new one. The former one is still read, for a writer that has it open. */
  trim(position: JournalPosition): JournalPosition {
    if (position.at < MAX_BYTES) return position;
    ifPossible(() => {
      requireNoLink(this.#dataDir, [INDEX_FOLDER]);
      this.#fs.rename(this.#path, `${this.#path}.old`);
    });
    const made = this.#made();
    return made ? { id: made.id, at: made.size } : position;
  }

  /** The journal with the UUIDs from shortly before `at`, by default its end. Undefined when it has no first line. */
  #read(path: string, at = Number.POSITIVE_INFINITY): Journal | undefined {
    return ifPossible(() =>
      withFile(this.#fs, path, "read", (fd) => {
        const size = this.#fs.size(fd);
        const [id] = this.#lines(fd, 0, LINE_BYTES);
        const from = Math.max(LINE_BYTES, Math.min(at, size) - REREAD_BYTES);
        return id === undefined ? undefined : { id, size, uuids: this.#lines(fd, from, size) };
      }),
    );
  }

  #lines(fd: number, from: number, to: number): string[] {
    const bytes = new Uint8Array(Math.max(0, to - from));
    const got = this.#fs.read(fd, bytes, from);
    const lines = new TextDecoder().decode(bytes.subarray(0, got)).split("\n");
    return lines.filter((line) => UUID.test(line));
  }

  /** Begins the journal; undefined where it can't be written. */
  #made(): Journal | undefined {
    const id = crypto.randomUUID();
    return ifPossible(() => {
      requireNoLink(this.#dataDir, [INDEX_FOLDER]);
      withFile(this.#fs, this.#path, "replace", (fd) => writeAll(this.#fs, fd, Buffer.from(`\n${id}\n`)));
      return { id, size: LINE_BYTES, uuids: [] };
    });
  }
}

interface Journal {
  id: string;
  size: number;
  uuids: string[];
}

/** Undefined where the file can't be used. */
function ifPossible<T>(use: () => T): T | undefined {
  try {
    return use();
  } catch (error) {
    if (error instanceof SyscallError || errnoOf(error) !== undefined) return undefined;
    throw error;
  }
}
