/** A database file of the derived index: opened, rebuilt when it is damaged, and kept in memory where no file can be written. */

import { constants, Database } from "bun:sqlite";
import nodeFs from "node:fs";
import { join } from "node:path";
import { errnoOf } from "../../lib/error-detail.ts";
import { INDEX_FOLDER, prepareDataDir, requireNoLink } from "./data-dir.ts";
import { makeFolder } from "./document.ts";
import { FileLock } from "./file-lock.ts";
import { realFs, withFile, writeAll } from "./fs-port.ts";

/** How long a database waits for another process that writes. */
const BUSY_MS = 5_000;
/** How long two processes may take to make the file. */
const LOCK_MS = 5_000;
/** After this time in memory, the disk is tried again. */
const MEMORY_MS = 30_000;
const CACHE_KIB = 8 * 1024;
/** A file of another version is removed when it was not written for this time. */
const UNUSED_MS = 7 * 24 * 60 * 60 * 1000;
/** Of the file: its tables, and that it is not mapped into memory. */
const MADE = 2;
/** Where a file says how it is written and read, and what says: without the other process's memory. */
const [FORM_AT, FORM] = [18, [1, 1]];

interface IndexFileOptions {
  dataDir: string;
  /** Of the file, without the version. */
  name: string;
  /** Of what is in it. Each version has a file of its own, so two versions of Rnix can work side by side. */
  version: string;
  schema: string;
  /** Marks files that this user's Rnix has made. No other file is opened. */
  seal: { checksumOf(entry: string, record: string): string };
}

interface OpenDatabase {
  db: Database;
  /** Of the file; null: in memory. */
  ino: number | null;
  openedAt: number;
  /** The data folder was there when it was opened. */
  hasDataDir: boolean;
}

/** As the database reports a file that is none. */
const OTHER = "SQLITE_NOTADB";
/** More than a seal has. */
const SEAL_BYTES = 64;

/** Of an earlier form of the index. */
const FORMER = ["runs.jsonl", "runs.jsonl.lock", "~runs.jsonl.tmp"];

/** A database that can be lost at any time. The user of it fills it again. */
export class IndexFile {
  readonly #options: IndexFileOptions;
  readonly #folder: string;
  readonly #path: string;
  #open: OpenDatabase | undefined;

  constructor(options: IndexFileOptions) {
    this.#options = options;
    this.#folder = join(options.dataDir, INDEX_FOLDER);
    this.#path = join(this.#folder, `${options.name}-v${options.version}.${MADE}.db`);
  }

  /** Whether the database is only in memory, because no file can be written. */
  get inMemory(): boolean {
    return this.#open?.ino === null;
  }

  /**
   * Calls `use` with the database, which is empty when `opened` is new to the caller. If the database turns out to be
   * damaged or can't be written, calls it again with another one.
   */
  use<T>(use: (db: Database) => T): T {
    try {
      return use(this.#database());
    } catch (error) {
      const problem = problemOf(error);
      if (problem === null) throw error;
      this.close();
      if (problem === "unwritable") this.#open = this.#inMemory();
      else this.#remove();
      return use(this.#database());
    }
  }

  /** Makes the data folder, for what is to be stored. Where it can't be made, the database is in memory. */
  makeDataDir(): void {
    try {
      prepareDataDir(this.#options.dataDir);
    } catch (error) {
      if (!isSystemError(error)) throw error;
    }
  }

  close(): void {
    const open = this.#open;
    this.#open = undefined;
    open?.db.close();
  }

  #database(): Database {
    if (this.#open && !this.#isCurrent(this.#open)) this.close();
    // A damaged file is removed, and made at the second attempt.
    this.#open ??= this.#openFile() ?? this.#openFile() ?? this.#inMemory();
    return this.#open.db;
  }

  /** The file may have been deleted, and the disk may have space again. */
  #isCurrent({ ino, openedAt, hasDataDir }: OpenDatabase): boolean {
    if (ino === null) return !hasDataDir === !this.#hasDataDir() && performance.now() - openedAt < MEMORY_MS;
    return inodeOf(this.#path) === ino && this.#isHarmless();
  }

  /**
   * Whether the database can be used without harm. In its other form it would map a file beside it into memory, and any
   * program that truncates that file would end the daemon. A pipe beside it would block.
   */
  #isHarmless(): boolean {
    const beside = statOf(`${this.#path}-journal`);
    if (beside !== undefined && !beside.isFile()) return false;
    const form = this.#bytesOf(this.#path, FORM_AT, FORM.length);
    return form.length === 0 || FORM.every((byte, i) => form[i] === byte);
  }

  /** Undefined where no file can be made or written. */
  #openFile(): OpenDatabase | undefined {
    const { dataDir } = this.#options;
    // To search where nothing was recorded makes no folder.
    if (!this.#hasDataDir()) return undefined;
    try {
      requireNoLink(dataDir, [INDEX_FOLDER]);
      prepareDataDir(dataDir);
      makeFolder(this.#folder);
      nodeFs.accessSync(this.#folder, nodeFs.constants.W_OK);
      const lock = FileLock.acquireNow(join(this.#folder, "lock"), LOCK_MS);
      try {
        if (!this.#isOurs()) this.#makeRoom();
        // SQLite would make it readable for others.
        nodeFs.closeSync(nodeFs.openSync(this.#path, "a", 0o600));
        const db = this.#opened(this.#path);
        const ino = inodeOf(this.#path);
        if (ino === null) {
          db.close();
          return undefined;
        }
        this.#writeSeal(ino);
        return { db, ino, openedAt: performance.now(), hasDataDir: true };
      } finally {
        lock.release();
      }
    } catch (error) {
      const problem = problemOf(error);
      if (problem === "damaged") {
        this.#remove();
        return undefined;
      }
      if (problem === "unwritable" || isSystemError(error)) return undefined;
      throw error;
    }
  }

  #inMemory(): OpenDatabase {
    const openedAt = performance.now();
    return { db: this.#opened(":memory:"), ino: null, openedAt, hasDataDir: this.#hasDataDir() };
  }

  #hasDataDir(): boolean {
    return statOf(this.#options.dataDir) !== undefined;
  }

  #opened(path: string): Database {
    const { schema } = this.#options;
    const { SQLITE_OPEN_READWRITE, SQLITE_OPEN_CREATE } = constants;
    const db = new Database(path, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE);
    try {
      db.run(`PRAGMA busy_timeout = ${BUSY_MS}`);
      db.run("PRAGMA journal_mode = TRUNCATE");
      db.run("PRAGMA mmap_size = 0");
      // A power loss may take the last changes, but leaves no damaged file.
      db.run("PRAGMA synchronous = NORMAL");
      db.run(`PRAGMA cache_size = -${CACHE_KIB}`);
      db.run("PRAGMA temp_store = MEMORY");
      db.run("PRAGMA trusted_schema = OFF");
      const made = versionOf(db);
      if (made !== 0 && made !== MADE)
        throw Object.assign(new Error(`made by version ${made}`), { code: OTHER });
      if (made === 0) db.transaction(() => db.run(`${schema}; PRAGMA user_version = ${MADE}`)).immediate();
      return db;
    } catch (error) {
      db.close();
      throw error;
    }
  }

  get #sealPath(): string {
    return `${this.#path}.seal`;
  }

  /** A file that came with a project, or was copied here, is never opened. */
  #isOurs(): boolean {
    const ino = inodeOf(this.#path);
    if (ino === null) return false;
    const seal = statOf(this.#sealPath);
    if (seal !== undefined && !seal.isFile()) return false;
    return this.#isHarmless() && this.#seal() === this.#sealOf(ino);
  }

  /** The first bytes of the seal; "" where there is none. */
  #seal(): string {
    return new TextDecoder().decode(this.#bytesOf(this.#sealPath, 0, SEAL_BYTES));
  }

  /** Fewer at the end of the file; none where there is no file. */
  #bytesOf(path: string, from: number, length: number): Uint8Array {
    const bytes = new Uint8Array(length);
    try {
      return bytes.subarray(
        0,
        withFile(realFs, path, "read", (fd) => realFs.read(fd, bytes, from)),
      );
    } catch (error) {
      if (errnoOf(error) !== undefined) return bytes.subarray(0, 0);
      throw error;
    }
  }

  #writeSeal(ino: number): void {
    const seal = this.#sealOf(ino);
    if (this.#seal() === seal) return;
    withFile(realFs, this.#sealPath, "replace", (fd) => writeAll(realFs, fd, Buffer.from(seal)));
  }

  /** Removes what is in the way, and the files of versions that are no longer used. */
  #makeRoom(): void {
    this.#remove();
    for (const name of nodeFs.readdirSync(this.#folder)) {
      const path = join(this.#folder, name);
      const isOther = name.startsWith(`${this.#options.name}-v`);
      const isUnused = isOther && Date.now() - (statOf(path)?.mtimeMs ?? 0) > UNUSED_MS;
      if (isUnused || FORMER.includes(name)) nodeFs.rmSync(path, { force: true, recursive: true });
    }
  }

  #sealOf(ino: number): string {
    return this.#options.seal.checksumOf(this.#path, String(ino));
  }

  #remove(): void {
    const beside = ["-journal", "-wal", "-shm"].map((end) => `${this.#path}${end}`);
    for (const path of [this.#path, ...beside, this.#sealPath])
      nodeFs.rmSync(path, { force: true, recursive: true });
  }
}

/** What an error of the database means for it; null: it is no fault of the file. */
export function problemOf(error: unknown): "damaged" | "unwritable" | null {
  const code = errnoOf(error);
  if (code === undefined) return null;
  if (/^SQLITE_(?:CORRUPT|NOTADB|SCHEMA)/.test(code)) return "damaged";
  if (/^SQLITE_(?:FULL|READONLY|IOERR|CANTOPEN|PERM|BUSY|LOCKED|PROTOCOL)/.test(code)) return "unwritable";
  return null;
}

function isSystemError(error: unknown): boolean {
  return error instanceof Error && ("code" in error || error.name === "SyscallError");
}

function versionOf(db: Database): number {
  return db.query<{ user_version: number }, []>("PRAGMA user_version").get()?.user_version ?? 0;
}

function inodeOf(path: string): number | null {
  const found = statOf(path);
  return found?.isFile() ? found.ino : null;
}

function statOf(path: string): nodeFs.Stats | undefined {
  try {
    return nodeFs.lstatSync(path, { throwIfNoEntry: false });
  } catch (error) {
    if (errnoOf(error) !== undefined) return undefined;
    throw error;
  }
}
