/** The documents of plugins, searched. */

import type { IndexFile } from "../files/index-file.ts";
import type { QueryWord } from "./query.ts";
import type { DocumentText } from "./requests.ts";
import { TextDatabase } from "./text-database.ts";
import type { TextFilter, TextHit } from "./text-index.ts";

/** The documents of one data folder. */
export class DocumentIndex {
  readonly #texts: TextDatabase;

  constructor(file: IndexFile) {
    this.#texts = new TextDatabase(file, "document");
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
    this.#texts.change((index) => index.put(collection, source, version, texts));
  }

  find(words: readonly QueryWord[], filter: TextFilter, limit: number): TextHit[] {
    return this.#texts.use((texts) => texts.find(words, filter, limit));
  }
}
