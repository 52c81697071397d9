/** Answers the requests to the index, in its Worker. */

import { join } from "node:path";
import { realFs } from "../files/fs-port.ts";
import type { IndexFile } from "../files/index-file.ts";
import type { RecordKey } from "../runs/record-key.ts";
import { indexFileOf, type RunIndex } from "../runs/run-index.ts";
import type { DamagedRun, RunRow } from "../runs/run-lists.ts";
import { RunStore } from "../runs/run-store.ts";
import { ConversationIndex, type StepHit } from "./conversation-index.ts";
import { DocumentIndex } from "./document-index.ts";
import { type QueryWord, queryWords } from "./query.ts";
import { RecentlyUsed } from "./recently-used.ts";
import type {
  AnswerOf,
  DamagedText,
  FindRequest,
  IndexHit,
  OperationName,
  RequestOf,
  RowsText,
  ToIndexWorker,
} from "./requests.ts";
import { snippetOf } from "./snippet.ts";
import type { TextHit } from "./text-index.ts";

/** Open databases of each kind: the least recently used one is closed. */
const MAX_OPEN = 32;
/** How long a search indexes new steps before it answers. */
const CATCH_UP_MS = 500;
/** In the background, a pause is this many times as long as the work before it. */
const REST_FACTOR = 2;
const MIN_REST_MS = 5;
/** Rows of one text. */
const ROWS = 200;

/** The operations, which may take turns of the event loop. */
type Operations = {
  [Name in OperationName]: (request: RequestOf<Name>) => AnswerOf<Name> | Promise<AnswerOf<Name>>;
};

/** The databases of all data folders. */
export class IndexService implements Operations {
  readonly #indexes: RecentlyUsed<DerivedIndex>;
  #working = false;

  constructor(key: RecordKey) {
    this.#indexes = new RecentlyUsed(MAX_OPEN, (dir) => new DerivedIndex(dir, key));
  }

  answer(operation: ToIndexWorker): AnswerOf<OperationName> | Promise<AnswerOf<OperationName>> {
    switch (operation.name) {
      case "sources":
        return this.sources(operation.request);
      case "put":
        return this.put(operation.request);
      case "find":
        return this.find(operation.request);
      case "pageRuns":
        return this.pageRuns(operation.request);
      case "recordTexts":
        return this.recordTexts(operation.request);
      case "isBusy":
        return this.isBusy();
      case "close":
        return this.close();
    }
  }

  sources({ dataDir, collection }: RequestOf<"sources">): AnswerOf<"sources"> {
    return this.#indexes.of(dataDir).documents.sources(collection);
  }

  put({ dataDir, collection, source, version, documents }: RequestOf<"put">): void {
    this.#indexes.of(dataDir).documents.put(collection, source, version, documents);
  }

  async find({ text, documents, runs, limit, ...filter }: FindRequest): Promise<AnswerOf<"find">> {
    const words = queryWords(text);
    const { project: _project, ...ofDocuments } = filter;
    const found: { hit: TextHit; shown: () => IndexHit }[] = [];
    for (const { dataDir, collections } of documents) {
      const hits = this.#indexes.of(dataDir).documents.find(words, { ...ofDocuments, collections }, limit);
      found.push(...hits.map((hit) => ({ hit, shown: () => shownDocument(hit, words) })));
    }
    const until = performance.now() + CATCH_UP_MS;
    let pending = 0;
    for (const dataDir of runs) {
      // A search where nothing was recorded makes no file.
      if (realFs.stat(join(dataDir, "steps")) === null) continue;
      const index = this.#indexes.of(dataDir).conversations;
      await index.look();
      while (performance.now() < until && (await index.work()));
      const hits = await index.find(words, filter, limit);
      found.push(...hits.map((hit) => ({ hit, shown: () => shownStep(hit, words) })));
      pending += index.pending;
    }
    if (pending > 0) void this.#work();
    const best = found.toSorted((a, b) => byRank(a.hit, b.hit)).slice(0, limit);
    return { hits: best.map(({ shown }) => shown()), pending };
  }

  async pageRuns({ dataDir, query }: RequestOf<"pageRuns">): Promise<AnswerOf<"pageRuns">> {
    const { rows, total, open, damaged } = await (await this.#indexes.of(dataDir).runs).page(query);
    return { rows: textsOf(rows), total, open: textsOf(open), damaged: damaged.map(damagedText) };
  }

  async recordTexts({ dataDir, uuids }: RequestOf<"recordTexts">): Promise<AnswerOf<"recordTexts">> {
    const index = await this.#indexes.of(dataDir).runs;
    const texts: (string | null)[] = [];
    const rows = uuids.map((uuid) => ({ uuid }));
    for await (const { text } of index.recordTexts(rows)) texts.push(text ?? null);
    return texts;
  }

  isBusy(): boolean {
    return this.#working;
  }

  close(): void {
    this.#indexes.close();
  }

  /** Indexes what is left, with rests: the machine has other work. */
  async #work(): Promise<void> {
    if (this.#working) return;
    this.#working = true;
    try {
      for (let isLeft = true; isLeft; ) {
        isLeft = false;
        for (const { conversations: index } of this.#indexes.open()) {
          const start = performance.now();
          isLeft = (await index.work()) || isLeft;
          await Bun.sleep(Math.max(MIN_REST_MS, REST_FACTOR * (performance.now() - start)));
        }
      }
    } finally {
      this.#working = false;
    }
  }
}

/** What is derived of one data folder, in one database. */
class DerivedIndex {
  readonly runs: Promise<RunIndex>;
  readonly conversations: ConversationIndex;
  readonly documents: DocumentIndex;
  readonly #file: IndexFile;

  constructor(dataDir: string, key: RecordKey) {
    this.#file = indexFileOf(key, dataDir);
    this.runs = new RunStore(dataDir, realFs, key).ownIndex(this.#file);
    this.conversations = new ConversationIndex(this.#file, dataDir, key);
    this.documents = new DocumentIndex(this.#file);
  }

  close(): void {
    this.#file.close();
  }
}

function textsOf(rows: readonly RunRow[]): RowsText[] {
  const texts: RowsText[] = [];
  for (let at = 0; at < rows.length; at += ROWS) texts.push(JSON.stringify(rows.slice(at, at + ROWS)));
  return texts;
}

function damagedText({ uuid, error }: DamagedRun): DamagedText {
  return { uuid, code: error.code, message: error.message };
}

function shownDocument(hit: TextHit, words: readonly QueryWord[]): IndexHit {
  const { collection, source, id, score, time_ms } = hit;
  const snippet = snippetOf(hit.text ?? "", words);
  return { collection, source, id, snippet, score, time_ms, fields: JSON.parse(hit.data) };
}

function shownStep({ info, step, ...hit }: StepHit, words: readonly QueryWord[]): IndexHit {
  const { source, id, score, time_ms } = hit;
  const { uuid, pid, agent, project } = info;
  const run = { uuid, pid, agent, project, step };
  const snippet = snippetOf(hit.text, words);
  return { collection: null, source, id, snippet, score, time_ms, fields: {}, run };
}

/** In two databases, scores are only roughly comparable: each counts how rare a word is in its own texts. */
function byRank(a: TextHit, b: TextHit): number {
  return a.stage - b.stage || b.score - a.score || (b.time_ms ?? 0) - (a.time_ms ?? 0);
}
