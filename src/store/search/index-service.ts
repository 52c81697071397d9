/** Answers the requests to the index, in its Worker. */

import { realFs } from "../files/fs-port.ts";
import type { RecordKey } from "../runs/record-key.ts";
import type { RunIndex } from "../runs/run-index.ts";
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
/** In the background, this share of the time is left to others. */
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
  readonly #documents: RecentlyUsed<DocumentIndex>;
  readonly #conversations: RecentlyUsed<ConversationIndex>;
  readonly #runs: RecentlyUsed<OpenRuns>;
  #working = false;

  constructor(key: RecordKey) {
    this.#documents = new RecentlyUsed(MAX_OPEN, (dir) => new DocumentIndex(dir, key));
    this.#conversations = new RecentlyUsed(MAX_OPEN, (dir) => new ConversationIndex(dir, key));
    this.#runs = new RecentlyUsed(MAX_OPEN, (dir) => new OpenRuns(dir, key));
  }

  answer(operation: ToIndexWorker): AnswerOf<OperationName> | Promise<AnswerOf<OperationName>> {
    switch (operation.name) {
      case "sources":
        return this.sources(operation.request);
      case "put":
        return this.put(operation.request);
      case "find":
        return this.find(operation.request);
      case "listRuns":
        return this.listRuns(operation.request);
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
    return this.#documents.of(dataDir).sources(collection);
  }

  put({ dataDir, collection, source, version, documents }: RequestOf<"put">): void {
    this.#documents.of(dataDir).put(collection, source, version, documents);
  }

  async find({ text, documents, runs, limit, ...filter }: FindRequest): Promise<AnswerOf<"find">> {
    const words = queryWords(text);
    const { project: _project, ...ofDocuments } = filter;
    const found: { hit: TextHit; shown: () => IndexHit }[] = [];
    for (const { dataDir, collections } of documents) {
      const hits = this.#documents.of(dataDir).find(words, { ...ofDocuments, collections }, limit);
      found.push(...hits.map((hit) => ({ hit, shown: () => shownDocument(hit, words) })));
    }
    const until = performance.now() + CATCH_UP_MS;
    let pending = 0;
    for (const dataDir of runs) {
      const index = this.#conversations.of(dataDir);
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

  async listRuns({ dataDir }: RequestOf<"listRuns">): Promise<AnswerOf<"listRuns">> {
    const { rows, damaged } = await (await this.#runs.of(dataDir).index).list();
    return { rows: textsOf(rows), damaged: damaged.map(damagedText) };
  }

  async pageRuns({ dataDir, query }: RequestOf<"pageRuns">): Promise<AnswerOf<"pageRuns">> {
    const { rows, total, open, damaged } = await (await this.#runs.of(dataDir).index).page(query);
    return { rows: textsOf(rows), total, open: textsOf(open), damaged: damaged.map(damagedText) };
  }

  async recordTexts({ dataDir, uuids }: RequestOf<"recordTexts">): Promise<AnswerOf<"recordTexts">> {
    const index = await this.#runs.of(dataDir).index;
    const texts: (string | null)[] = [];
    const rows = uuids.map((uuid) => ({ uuid }));
    for await (const { text } of index.recordTexts(rows)) texts.push(text ?? null);
    return texts;
  }

  isBusy(): boolean {
    return this.#working;
  }

  close(): void {
    this.#documents.close();
    this.#conversations.close();
    this.#runs.close();
  }

  /** Indexes what is left, with rests: the machine has other work. */
  async #work(): Promise<void> {
    if (this.#working) return;
    this.#working = true;
    try {
      for (let isLeft = true; isLeft; ) {
        isLeft = false;
        for (const index of this.#conversations.open()) {
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

/** The index of the runs of one data folder. */
class OpenRuns {
  readonly index: Promise<RunIndex>;

  constructor(dataDir: string, key: RecordKey) {
    this.index = new RunStore(dataDir, realFs, key).ownIndex({ keepOpen: true });
  }

  close(): void {
    void this.index.then((index) => index.close());
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
