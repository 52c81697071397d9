/** Answers the requests to the index, in its Worker. */

import type { RecordKey } from "../runs/record-key.ts";
import { DocumentIndex } from "./document-index.ts";
import { queryWords } from "./query.ts";
import type {
  AnswerOf,
  FindRequest,
  IndexHit,
  IndexOperations,
  OperationName,
  RequestOf,
  ToIndexWorker,
} from "./requests.ts";
import { snippetOf } from "./snippet.ts";
import type { TextHit } from "./text-index.ts";

/** Open databases: the least recently used one is closed. */
const MAX_OPEN = 16;

/** The databases of all data folders. */
export class IndexService implements IndexOperations {
  readonly #key: RecordKey;
  readonly #documents = new Map<string, DocumentIndex>();

  constructor(key: RecordKey) {
    this.#key = key;
  }

  answer(operation: ToIndexWorker): AnswerOf<OperationName> {
    switch (operation.name) {
      case "sources":
        return this.sources(operation.request);
      case "put":
        return this.put(operation.request);
      case "find":
        return this.find(operation.request);
      case "close":
        return this.close();
    }
  }

  sources({ dataDir, collection }: RequestOf<"sources">): AnswerOf<"sources"> {
    return this.#documentsOf(dataDir).sources(collection);
  }

  put({ dataDir, collection, source, version, documents }: RequestOf<"put">): void {
    this.#documentsOf(dataDir).put(collection, source, version, documents);
  }

  find({ text, documents, limit, ...filter }: FindRequest): AnswerOf<"find"> {
    const words = queryWords(text);
    const found = documents.flatMap(({ dataDir, collections }) =>
      this.#documentsOf(dataDir)
        .find(words, { ...filter, collections }, limit)
        .map((hit) => ({ ...hit, text: hit.text ?? "" })),
    );
    const hits = found
      .toSorted(byRank)
      .slice(0, limit)
      .map(
        (hit): IndexHit => ({
          collection: hit.collection,
          source: hit.source,
          id: hit.id,
          snippet: snippetOf(hit.text, words),
          score: hit.score,
          time_ms: hit.time_ms,
          fields: JSON.parse(hit.data),
        }),
      );
    return { hits, pending: 0 };
  }

  close(): void {
    for (const index of this.#documents.values()) index.close();
    this.#documents.clear();
  }

  #documentsOf(dataDir: string): DocumentIndex {
    const index =
      this.#documents.get(dataDir) ?? new DocumentIndex(dataDir, this.#key.sealOf(`index ${dataDir}`));
    // A map keeps the order of insertion: the first one is the least recently used.
    this.#documents.delete(dataDir);
    this.#documents.set(dataDir, index);
    if (this.#documents.size > MAX_OPEN) {
      const [oldest] = this.#documents.keys();
      this.#documents.get(oldest ?? "")?.close();
      this.#documents.delete(oldest ?? "");
    }
    return index;
  }
}

/** In two databases, scores are only roughly comparable: each counts how rare a word is in its own texts. */
function byRank(a: TextHit, b: TextHit): number {
  return a.stage - b.stage || b.score - a.score || (b.time_ms ?? 0) - (a.time_ms ?? 0);
}
