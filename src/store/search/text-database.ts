/** A file of the derived index with texts, opened when it is used. */

import type { Database } from "bun:sqlite";
import { IndexFile } from "../files/index-file.ts";
import type { RecordKey } from "../runs/record-key.ts";
import { TEXT_SCHEMA, TextIndex } from "./text-index.ts";

/** The texts of one data folder in a database that can be lost at any time. */
export class TextDatabase {
  readonly #file: IndexFile;
  readonly #opened: (texts: TextIndex) => void;
  #texts: { db: Database; index: TextIndex } | undefined;

  /** `version`: of the tables, and of the way texts are made. `opened`: called with each database that is new here. */
  constructor(
    { dataDir, name, version, key }: { dataDir: string; name: string; version: string; key: RecordKey },
    opened: (texts: TextIndex) => void = () => {},
  ) {
    const seal = key.sealOf(`index ${dataDir}`);
    this.#file = new IndexFile({ dataDir, name, version, schema: TEXT_SCHEMA, seal });
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

  /** Makes the data folder, for what is to be stored. */
  makeDataDir(): void {
    this.#file.makeDataDir();
  }

  /** The size of a database that is only in memory, because no file can be written; 0 for a file. */
  get memoryBytes(): number {
    if (!this.#file.inMemory) return 0;
    const pages = this.#file.use(
      (db) => db.query<{ page_count: number }, []>("PRAGMA page_count").get()?.page_count ?? 0,
    );
    return pages * PAGE_BYTES;
  }

  close(): void {
    this.#texts = undefined;
    this.#file.close();
  }

  #of(db: Database): TextIndex {
    if (this.#texts?.db !== db) {
      this.#texts = { db, index: new TextIndex(db) };
      this.#opened(this.#texts.index);
    }
    return this.#texts.index;
  }
}

const PAGE_BYTES = 4096;
