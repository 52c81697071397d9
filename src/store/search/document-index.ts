/** The documents of plugins, searched: one database for each data folder. */

import { IndexFile } from "../files/index-file.ts";
import type { RecordKey } from "../runs/record-key.ts";
import type { QueryWord } from "./query.ts";
import type { DocumentText } from "./requests.ts";
import { TEXT_SCHEMA, type TextFilter, type TextHit, TextIndex } from "./text-index.ts";

const NAME = "documents";
/** Of the tables and of the way texts are split into terms. */
const VERSION = "1";

/** The documents of one data folder. */
export class DocumentIndex {
  readonly #file: IndexFile;
  #texts: { db: object; index: TextIndex } | undefined;

  constructor(dataDir: string, key: RecordKey) {
    const seal = key.sealOf(`index ${dataDir}`);
    this.#file = new IndexFile({ dataDir, name: NAME, version: VERSION, schema: TEXT_SCHEMA, seal });
  }

  sources(collection: string): { source: string; version: string }[] {
    return this.#use((texts) => texts.sources(collection));
  }

  put(collection: string, source: string, version: string, documents: readonly DocumentText[]): void {
    const texts = documents.map(({ id, text, time_ms = null, fields = {} }) => ({
      id,
      text,
      time_ms,
      data: JSON.stringify(fields),
      stored: true,
      agent: fields.agent ?? "",
      project: "",
    }));
    if (texts.length > 0) this.#file.makeDataDir();
    this.#file.use((db) => {
      const index = this.#of(db);
      try {
        db.transaction(() => index.put(collection, source, version, texts)).immediate();
      } catch (error) {
        index.forgetTerms();
        throw error;
      }
    });
  }

  find(words: readonly QueryWord[], filter: TextFilter, limit: number): TextHit[] {
    return this.#use((texts) => texts.find(words, filter, limit));
  }

  close(): void {
    this.#texts = undefined;
    this.#file.close();
  }

  #use<T>(use: (texts: TextIndex) => T): T {
    return this.#file.use((db) => use(this.#of(db)));
  }

  #of(db: ConstructorParameters<typeof TextIndex>[0]): TextIndex {
    if (this.#texts?.db !== db) this.#texts = { db, index: new TextIndex(db) };
    return this.#texts.index;
  }
}
