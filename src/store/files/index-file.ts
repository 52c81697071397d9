/** The derived database of a data folder: opened, rebuilt when it is damaged, and kept in memory where no file can be written. */

import { constants, Database } from "bun:sqlite";
import nodeFs from "node:fs";
import { dirname, join } from "node:path";
import { errnoOf } from "../../lib/error-detail.ts";
import { indexNameOf } from "./data-dir.ts";
import { makeFolder } from "./document.ts";

/** How long a database waits for another process that writes. */
const BUSY_MS = 5_000;
/** After this time in memory, the disk is tried again. */
const MEMORY_MS = 30_000;
const CACHE_KIB = 8 * 1024;
/** A file is removed when it was not written for this time. */
const UNUSED_MS = 30 * 24 * 60 * 60 * 1000;

interface IndexFileOptions {
  /** The user's folder of such files; null: the database is in memory. */
  folder: string | null;
  /** What the database is derived from. Each data folder has a file of its own. */
  dataDir: string;
  /** Of what is in it. Each version has a file of its own, so two versions of Rnix can work side by side. */
  version: string;
}

interface OpenDatabase {
  db: Database;
  /** The inode of the database file; null for a database in memory. */
  ino: number | null;
  openedAt: number;
}

/** A database that can be lost at any time. The user of it fills it again. */
export class IndexFile {
  readonly #path: string | null;
  #open: OpenDatabase | undefined;

  constructor({ folder, dataDir, version }: IndexFileOptions) {
    this.#path = folder && join(folder, `${indexNameOf(dataDir)}-${version}.db`);
  }

  /** Whether the database is only in memory, because no file can be written. */
  get inMemory(): boolean {
    return this.#open?.ino === null;
  }

  /**
   * Calls `use` with the database, which is empty when `db` is new to the caller. If the database turns out to be
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
  #isCurrent({ ino, openedAt }: OpenDatabase): boolean {
    if (ino === null) return this.#path === null || performance.now() - openedAt < MEMORY_MS;
    return inodeOf(this.#path) === ino;
  }

  /** Undefined where no file can be made or written. */
  #openFile(): OpenDatabase | undefined {
    if (this.#path === null) return undefined;
    try {
      if (inodeOf(this.#path) === null) prepare(dirname(this.#path));
      const db = opened(this.#path);
      const ino = inodeOf(this.#path);
      if (ino !== null) return { db, ino, openedAt: performance.now() };
      db.close();
    } catch (error) {
      const problem = problemOf(error);
      if (problem === null && !(error instanceof Error && "code" in error)) throw error;
      if (problem === "damaged") this.#remove();
    }
    return undefined;
  }

  #inMemory(): OpenDatabase {
    return { db: opened(":memory:"), ino: null, openedAt: performance.now() };
  }

  #remove(): void {
    for (const end of ["", "-journal"])
      nodeFs.rmSync(`${this.#path}${end}`, { force: true, recursive: true });
  }
}

/** Makes tables where the database has none with this name. */
export function makeTables(db: Database, name: string, tables: string): void {
  const isMissing = (): boolean => db.query("SELECT 1 FROM sqlite_master WHERE name = ?").get(name) === null;
  // Another process may make them meanwhile.
  if (isMissing()) db.transaction(() => isMissing() && db.run(tables)).immediate();
}

function opened(path: string): Database {
  const { SQLITE_OPEN_READWRITE, SQLITE_OPEN_CREATE } = constants;
  const db = new Database(path, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE);
  try {
    db.run(`PRAGMA busy_timeout = ${BUSY_MS}`);
    // With these two no file is mapped into memory: a program that truncates one ends no daemon.
    db.run("PRAGMA journal_mode = TRUNCATE");
    db.run("PRAGMA mmap_size = 0");
    // A power loss may take the last changes, but leaves no damaged file.
    db.run("PRAGMA synchronous = NORMAL");
    db.run(`PRAGMA cache_size = -${CACHE_KIB}`);
    db.run("PRAGMA temp_store = MEMORY");
    db.run("PRAGMA trusted_schema = OFF");
    return db;
  } catch (error) {
    db.close();
    throw error;
  }
}

/** Makes the folder, and removes what was not used for long: of other versions, and of data folders that are gone. */
function prepare(folder: string): void {
  makeFolder(folder);
  for (const name of nodeFs.readdirSync(folder)) {
    const path = join(folder, name);
    const age = Date.now() - (nodeFs.lstatSync(path, { throwIfNoEntry: false })?.mtimeMs ?? 0);
    if (age > UNUSED_MS) nodeFs.rmSync(path, { force: true, recursive: true });
  }
}

/** What an error of the database means for it; null: it is no fault of the file. */
function problemOf(error: unknown): "damaged" | "unwritable" | null {
  // A row is not valid JSON, or a table is missing.
  if (error instanceof SyntaxError || (error instanceof Error && /no such table/.test(error.message)))
    return "damaged";
  const code = errnoOf(error) ?? "";
  if (/^SQLITE_(?:CORRUPT|NOTADB|SCHEMA)/.test(code)) return "damaged";
  if (/^SQLITE_(?:FULL|READONLY|IOERR|CANTOPEN|PERM|BUSY|LOCKED|PROTOCOL)/.test(code)) return "unwritable";
  return null;
}

function inodeOf(path: string | null): number | null {
  const found = path === null ? undefined : nodeFs.lstatSync(path, { throwIfNoEntry: false });
  return found?.isFile() ? found.ino : null;
}
