/** Answers the requests to the index, in its Worker. */

import { join } from "node:path";
import { BoundedMap } from "../../lib/caches.ts";
import { realFs } from "../files/fs-port.ts";
import type { IndexFile } from "../files/index-file.ts";
import type { RecordKey } from "../runs/record-key.ts";
import { indexFileOf, type RunIndex } from "../runs/run-index.ts";
import type { DamagedRun, RunRow } from "../runs/run-lists.ts";
import { RunStore } from "../runs/run-store.ts";
import { ConversationIndex, type StepHit } from "./conversation-index.ts";
import { allowsTypo, eachWord, isTypoOf, type QueryWord, queryWords } from "./query.ts";
import type {
  AnswerOf,
  DamagedText,
  DocumentText,
  FindRequest,
  IndexHit,
  OperationName,
  RequestOf,
  RowsText,
  ToIndexWorker,
} from "./requests.ts";
import { TextDatabase, type TextFilter, type TextHit } from "./text-index.ts";

/** Open databases of each kind: the least recently used one is closed. */
const MAX_OPEN = 32;
/** How long a search indexes new steps before it answers. */
const CATCH_UP_MS = 500;
/** In the background, a pause is this many times as long as the work before it. */
const REST_FACTOR = 2;
const MIN_REST_MS = 5;
const ROWS = 200;

/** The operations, which may take turns of the event loop. */
type Operations = {
  [Name in OperationName]: (request: RequestOf<Name>) => AnswerOf<Name> | Promise<AnswerOf<Name>>;
};

export class IndexService implements Operations {
  readonly #indexes = new BoundedMap<string, DerivedIndex>(MAX_OPEN, (index) => index.close());
  readonly #key: RecordKey;
  #working = false;

  constructor(key: RecordKey) {
    this.#key = key;
  }

  answer<Name extends OperationName>({ name, request }: ToIndexWorker<Name>) {
    const operation: Operations[Name] = this[name];
    return operation.call(this, request);
  }

  sources({ dataDir, collection }: RequestOf<"sources">): AnswerOf<"sources"> {
    return this.#of(dataDir).documents.sources(collection);
  }

  put({ dataDir, collection, source, version, documents }: RequestOf<"put">): void {
    this.#of(dataDir).documents.put(collection, source, version, documents);
  }

  async find({ text, documents, runs, limit, ...filter }: FindRequest): Promise<AnswerOf<"find">> {
    const words = queryWords(text);
    const { project: _project, ...ofDocuments } = filter;
    const found: { hit: TextHit; shown: () => IndexHit }[] = [];
    for (const { dataDir, collections } of documents) {
      const hits = this.#of(dataDir).documents.find(words, { ...ofDocuments, collections }, limit);
      found.push(...hits.map((hit) => ({ hit, shown: () => shownDocument(hit, words) })));
    }
    const until = performance.now() + CATCH_UP_MS;
    let pending = 0;
    for (const dataDir of runs) {
      // A search where nothing was recorded makes no file.
      if (realFs.stat(join(dataDir, "steps")) === null) continue;
      const index = this.#of(dataDir).conversations;
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
    const { rows, total, open, damaged } = await (await this.#of(dataDir).runs).page(query);
    return { rows: textsOf(rows), total, open: textsOf(open), damaged: damaged.map(damagedText) };
  }

  async recordTexts({ dataDir, uuids }: RequestOf<"recordTexts">): Promise<AnswerOf<"recordTexts">> {
    const index = await this.#of(dataDir).runs;
    const texts: (string | null)[] = [];
    const rows = uuids.map((uuid) => ({ uuid }));
    for await (const { text } of index.recordTexts(rows)) texts.push(text ?? null);
    return texts;
  }

  isBusy(): boolean {
    return this.#working;
  }

  close(): void {
    for (const index of this.#indexes.values()) index.close();
    this.#indexes.clear();
  }

  /** The databases of a data folder, which become the newest ones. */
  #of(dataDir: string): DerivedIndex {
    const index = this.#indexes.get(dataDir) ?? new DerivedIndex(dataDir, this.#key);
    this.#indexes.set(dataDir, index);
    return index;
  }

  /** Indexes what is left, with rests: the machine has other work. */
  async #work(): Promise<void> {
    if (this.#working) return;
    this.#working = true;
    try {
      for (let isLeft = true; isLeft; ) {
        isLeft = false;
        for (const { conversations: index } of [...this.#indexes.values()]) {
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

const SNIPPET_CHARS = 240;
/** Characters before the first match. */
const LEAD_CHARS = 60;

interface Match {
  at: number;
  end: number;
  /** Its position in the query. */
  word: number;
}

/** Returns the part with the most different words of the query, on one line. */
export function snippetOf(text: string, words: readonly QueryWord[]): string {
  const found: Match[] = [];
  eachWord(text, ({ terms, start, end }) => {
    const word = words.findIndex((one) => matches(one, terms));
    if (word >= 0) found.push({ at: start, end, word });
  });
  const start = Math.max(0, bestStart(found) - LEAD_CHARS);
  const from = start === 0 ? 0 : afterBlank(text, start);
  const part = text.slice(from, from + SNIPPET_CHARS);
  const to = from + part.length < text.length ? beforeBlank(part) : part.length;
  const line = part.slice(0, to).replace(/\s+/g, " ").trim().toWellFormed();
  return `${from > 0 ? "…" : ""}${line}${from + to < text.trimEnd().length ? "…" : ""}`;
}

function matches(word: QueryWord, found: readonly string[]): boolean {
  const { terms, pairs, isLast } = word;
  const [whole = ""] = terms;
  if (pairs) return terms.some((term) => found.includes(term));
  return found.some(
    (term) =>
      term === whole || (isLast && term.startsWith(whole)) || (allowsTypo(word) && isTypoOf(term, whole)),
  );
}

/** The match from which the most different words follow within a snippet. */
function bestStart(found: readonly Match[]): number {
  let best = { at: 0, words: 0 };
  let end = 0;
  const count = new Map<number, number>();
  for (const [first, { at, word }] of found.entries()) {
    for (let next = found[end]; next && isNear(next, at, end === first); next = found[++end])
      count.set(next.word, (count.get(next.word) ?? 0) + 1);
    if (count.size > best.words) best = { at, words: count.size };
    const left = (count.get(word) ?? 0) - 1;
    if (left > 0) count.set(word, left);
    else count.delete(word);
  }
  return best.at;
}

function isNear({ end }: Match, at: number, isFirst: boolean): boolean {
  return isFirst || end - at <= SNIPPET_CHARS - LEAD_CHARS;
}

function afterBlank(text: string, at: number): number {
  const blank = text.slice(at, at + LEAD_CHARS / 2).search(/\s/);
  return blank < 0 ? at : at + blank + 1;
}

function beforeBlank(text: string): number {
  const blank = text.slice(0, -1).search(/\s\S*$/);
  return blank > SNIPPET_CHARS / 2 ? blank : text.length;
}
