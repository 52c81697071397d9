/** The requests to the index's Worker, and its answers, sent as structured clones. */

import type { Code, SearchHit } from "../../plugin/index.ts";
import type { PageQuery } from "../runs/run-lists.ts";

export interface DocumentText {
  id: string;
  text: string;
  time_ms?: number;
  fields?: Record<string, string>;
}

/** Where a search looks for documents. */
export interface DocumentTarget {
  dataDir: string;
  collections: string[];
}

export interface FindRequest {
  text: string;
  documents: DocumentTarget[];
  /** The data folders whose runs are searched, too. */
  runs: string[];
  project?: string;
  agent?: string;
  since_ms?: number;
  until_ms?: number;
  limit: number;
}

/** A hit before the caller's scope is known. */
export type IndexHit = Omit<SearchHit, "kind" | "scope">;

/** Some rows as one JSON text: texts cross at once, and are parsed in time slices. */
export type RowsText = string;

export interface DamagedText {
  uuid: string;
  code: Code;
  message: string;
}

/** The operations, as a table of functions. */
export interface IndexOperations {
  sources(request: { dataDir: string; collection: string }): { source: string; version: string }[];
  put(request: {
    dataDir: string;
    collection: string;
    source: string;
    version: string;
    documents: DocumentText[];
  }): void;
  find(request: FindRequest): { hits: IndexHit[]; pending: number };
  pageRuns(request: { dataDir: string; query: PageQuery }): {
    rows: RowsText[];
    total: number;
    open: RowsText[];
    damaged: DamagedText[];
  };
  /** The records of runs as JSON; null for one that has to be read from its own file. */
  recordTexts(request: { dataDir: string; uuids: string[] }): (string | null)[];
  /** Whether work is left that is done in the background. */
  isBusy(request: object): boolean;
  /** Closes all databases, so that the Worker can end. */
  close(request: object): void;
}

export type OperationName = keyof IndexOperations;
export type RequestOf<Name extends OperationName> = Parameters<IndexOperations[Name]>[0];
export type AnswerOf<Name extends OperationName> = ReturnType<IndexOperations[Name]>;

/** A request with its number. The Worker's first message is the key of the records. */
export type ToIndexWorker<Names extends OperationName = OperationName> = {
  [Name in Names]: { id: number; name: Name; request: RequestOf<Name> };
}[Names];

export interface FromIndexWorker {
  id: number;
  answer?: unknown;
  error?: { code: Code; message: string };
}
