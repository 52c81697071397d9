/** The service `search`: full-text search of documents and runs. */

/**
 * Full-text search of the plugin's documents and of recorded runs. It is a derived index: the plugin's files, and the
 * records of the runs, stay the truth. The index may be empty at any time, for example after a user has deleted it;
 * compare `sources` with the files and `put` what is missing before each search.
 */
export interface Search {
  /** The indexed sources of a collection of the plugin, with the version that `put` was given. Sorted by `source`. */
  sources(scope: SearchScope, collection: string): Promise<{ source: string; version: string }[]>;
  /**
   * Replaces all documents of one source, such as a file; `[]` removes it. `fields` are returned with a hit; the filter
   * `agent` compares the field `agent`. Fails with INVALID for a text of more than 65,536 characters.
   */
  put(
    scope: SearchScope,
    collection: string,
    source: string,
    version: string,
    documents: SearchDocument[],
  ): Promise<void>;
  /** Ranked, best first: see `SearchQuery`. */
  find(query: SearchQuery): Promise<SearchResult>;
}

/** The index beside the project's data, or beside the user's. */
export type SearchScope = "project" | "user";

export interface SearchDocument {
  /** Unique in its source. */
  id: string;
  text: string;
  time_ms?: number;
  fields?: Record<string, string>;
}

/**
 * Nothing in `text` is syntax. Best are the documents with all words (BM25; the last word may be the beginning of one),
 * then those with all words when one typo in each word of 5 letters or more is tolerated, then those with some of them.
 */
export interface SearchQuery {
  text: string;
  /** The plugin's own collections, of the project and of the user. Absent: no documents. */
  collections?: string[];
  /** Also the conversations of recorded runs of all the user's projects. */
  runs?: boolean;
  /** Only documents and runs of this project (its folder, absolute); documents of the user count, too. */
  project?: string;
  agent?: string;
  since_ms?: number;
  until_ms?: number;
  /** At most 1,000. */
  limit: number;
}

export interface SearchResult {
  hits: SearchHit[];
  /** How many runs are not yet indexed completely: a later search may find more. */
  pending: number;
}

export interface SearchHit {
  kind: "run" | "document";
  /** null for a run. */
  collection: string | null;
  /** For a document: where it is; null for a run. */
  scope: SearchScope | null;
  /** The document's source, or the run's UUID. */
  source: string;
  id: string;
  /** The part of the text with the words, on one line. */
  snippet: string;
  /** Higher is better. Comparable within one answer only. */
  score: number;
  time_ms: number | null;
  /** Of a document. */
  fields: Record<string, string>;
  run?: { uuid: string; pid: number; agent: string; project: string; step: number };
}
