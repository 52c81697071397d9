/** The documents of plugins, searched: one database for each data folder. */

import type { RecordKey } from "../runs/record-key.ts";
import type { QueryWord } from "./query.ts";
import type { DocumentText } from "./requests.ts";
import { TextDatabase } from "./text-database.ts";
import type { TextFilter, TextHit } from "./text-index.ts";

const NAME = "documents";
/** Of the tables and of the way texts are split into terms. */
const VERSION = "1";

/** The documents of one data folder. */
export class DocumentIndex {
  readonly #texts: TextDatabase;

  constructor(dataDir: string, key: RecordKey) {
    this.#texts = new TextDatabase({ dataDir, name: NAME, version: VERSION, key });
  }

  sources(collection: string): { source: string; version: string }[] {
    return this.#texts.use((texts) => texts.sources(collection));
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
    if (texts.length > 0) this.#texts.makeDataDir();
    this.#texts.change((index) => index.put(collection, source, version, texts));
  }

  find(words: readonly QueryWord[], filter: TextFilter, limit: number): TextHit[] {
    return this.#texts.use((texts) => texts.find(words, filter, limit));
  }

  close(): void {
    this.#texts.close();
  }
}
