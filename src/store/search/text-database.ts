/** The texts of one kind in a derived index, which is opened when it is used. */

import type { Database } from "bun:sqlite";
import { type IndexFile, makeTables } from "../files/index-file.ts";
import { TextIndex, type TextKind, textTables } from "./text-index.ts";

const PAGE_BYTES = 4096;

/** A derived index of texts: it can be lost at any time, and is then built again. */
export class TextDatabase {
  readonly #file: IndexFile;
  readonly #kind: TextKind;
  readonly #opened: (texts: TextIndex) => void;
  #texts: { db: Database; index: TextIndex } | undefined;

  /** `opened` is called each time that the database file is opened. */
  constructor(file: IndexFile, kind: TextKind, opened: (texts: TextIndex) => void = () => {}) {
    this.#file = file;
    this.#kind = kind;
    this.#opened = opened;
  }

  use<T>(use: (texts: TextIndex) => T): T {
    return this.#file.use((db) => use(this.#of(db)));
  }

  /** In one transaction. */
  change<T>(change: (texts: TextIndex) => T): T {
    return this.#file.use((db) => {
      const index = this.#of(db);
      try {
        return db.transaction(() => change(index)).immediate();
      } catch (error) {
        index.forgetTerms();
        throw error;
      }
    });
  }

  /** The size of a database that is only in memory, because no file can be written; 0 for a file. */
  get memoryBytes(): number {
    if (!this.#file.inMemory) return 0;
    const pages = this.#file.use(
      (db) => db.query<{ page_count: number }, []>("PRAGMA page_count").get()?.page_count ?? 0,
    );
    return pages * PAGE_BYTES;
  }

  #of(db: Database): TextIndex {
    if (this.#texts?.db !== db) {
      makeTables(db, `${this.#kind}_source`, textTables(this.#kind));
      this.#texts = { db, index: new TextIndex(db, this.#kind) };
      this.#opened(this.#texts.index);
    }
    return this.#texts.index;
  }
}
