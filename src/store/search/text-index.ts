/** Texts with full-text search in a database: put, remove and find them. */

import type { Database, SQLQueryBindings } from "bun:sqlite";
import { type IndexFile, makeTables } from "../files/index-file.ts";
import { allowsTypo, eachWord, expressionOf, isTypoOf, isWord, knownChars, type QueryWord } from "./query.ts";

export interface IndexText {
  id: string;
  text: string;
  time_ms: number | null;
  /** Data that a hit returns, as JSON. */
  data: string;
  /** Stored for the snippet; absent: the caller has the text elsewhere. */
  stored: boolean;
  agent: string;
  project: string;
}

export interface TextFilter {
  collections?: readonly string[];
  project?: string;
  agent?: string;
  since_ms?: number;
  until_ms?: number;
}

/** A found text. A hit of an earlier stage is better than all of a later one; in a stage, the higher score is better. */
export interface TextHit {
  stage: number;
  score: number;
  collection: string;
  source: string;
  id: string;
  time_ms: number | null;
  text: string | null;
  data: string;
}

/** Maximum matches that are ranked: of more, the newest. */
const MAX_CANDIDATES = 4_000;
/** Terms that are tried for one word with a typo, the most frequent ones. */
const MAX_SIMILAR = 5;
/** Terms of which it is known that they are in the tables of terms. */
const MAX_KNOWN_TERMS = 100_000;

/** Steps and documents have tables of their own, because a rank depends on all texts of a table. */
type TextKind = "step" | "document";

/** The tables. The text itself is not in the full-text table: `text` has it, or the caller. */
function textTables(kind: TextKind): string {
  return `
    CREATE TABLE ${kind}_source (
      id INTEGER PRIMARY KEY, collection TEXT NOT NULL, name TEXT NOT NULL, version TEXT NOT NULL,
      UNIQUE (collection, name)
    );
    CREATE TABLE ${kind}_text (
      id INTEGER PRIMARY KEY, source INTEGER NOT NULL, name TEXT NOT NULL, time_ms INTEGER,
      agent TEXT NOT NULL, project TEXT NOT NULL, text TEXT, data TEXT NOT NULL
    );
    CREATE INDEX ${kind}_text_source ON ${kind}_text (source);
    CREATE VIRTUAL TABLE ${kind}_words USING fts5 (text, content = '', contentless_delete = 1, tokenize = 'ascii');
    CREATE VIRTUAL TABLE ${kind}_vocabulary USING fts5vocab (${kind}_words, row);
    CREATE TABLE ${kind}_term (term TEXT PRIMARY KEY) WITHOUT ROWID;
    CREATE TABLE ${kind}_term_reversed (term TEXT PRIMARY KEY) WITHOUT ROWID;
  `;
}

/** Searches the texts of one kind. Every method is synchronous: it runs in the index's Worker. */
export class TextIndex {
  readonly #db: Database;
  readonly #kind: TextKind;
  readonly #knownTerms = new Set<string>();

  constructor(db: Database, kind: TextKind) {
    this.#db = db;
    this.#kind = kind;
  }

  sources(collection: string): { source: string; version: string }[] {
    return this.#all<{ source: string; version: string }>(
      `SELECT name AS source, version FROM ${this.#kind}_source WHERE collection = ? ORDER BY name`,
      collection,
    );
  }

  versionOf(collection: string, source: string): string | undefined {
    return this.#all<{ version: string }>(
      `SELECT version FROM ${this.#kind}_source WHERE collection = ? AND name = ?`,
      collection,
      source,
    )[0]?.version;
  }

  /** Replaces all texts of a source. Without texts, the source is removed. */
  put(collection: string, source: string, version: string, texts: readonly IndexText[]): void {
    this.remove(collection, source);
    if (texts.length > 0) this.add(collection, source, version, texts);
  }

  add(collection: string, source: string, version: string, texts: readonly IndexText[]): void {
    this.#run(
      `INSERT INTO ${this.#kind}_source (collection, name, version) VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET version = excluded.version`,
      collection,
      source,
      version,
    );
    const of = this.#sourceId(collection, source);
    for (const { id, text, time_ms, data, stored, agent, project } of texts) {
      const { lastInsertRowid } = this.#run(
        `INSERT INTO ${this.#kind}_text (source, name, time_ms, agent, project, text, data) VALUES (?, ?, ?, ?, ?, ?, ?)`,
        of ?? null,
        id,
        time_ms,
        agent,
        project,
        stored ? text : null,
        data,
      );
      this.#run(
        `INSERT INTO ${this.#kind}_words (rowid, text) VALUES (?, ?)`,
        lastInsertRowid,
        this.#termsOf(text),
      );
    }
  }

  remove(collection: string, source: string): void {
    const of = this.#sourceId(collection, source);
    if (of === undefined) return;
    this.#run(
      `DELETE FROM ${this.#kind}_words WHERE rowid IN (SELECT id FROM ${this.#kind}_text WHERE source = ?)`,
      of,
    );
    this.#run(`DELETE FROM ${this.#kind}_text WHERE source = ?`, of);
    this.#run(`DELETE FROM ${this.#kind}_source WHERE id = ?`, of);
  }

  /**
   * Finds texts with all words, then those with a typo in one of them, then those with the rarest of them: the later
   * stages only while `limit` is not reached.
   */
  find(words: readonly QueryWord[], filter: TextFilter, limit: number): TextHit[] {
    if (words.length === 0 || limit <= 0) return [];
    const found = new Map<number, TextHit>();
    const search = (stage: number, expression: string): void => {
      if (found.size >= limit) return;
      for (const { rowid, ...hit } of this.#matches(expression, filter, limit + found.size))
        if (found.size < limit && !found.has(rowid)) found.set(rowid, { ...hit, stage });
    };
    search(0, words.map((word) => expressionOf(word)).join(" AND "));
    if (found.size < limit) {
      const similar = new Map(words.map((word) => [word, this.#similarTo(word)]));
      const tolerant = words.map((word) => expressionOf(word, similar.get(word)));
      if ([...similar.values()].some((terms) => terms.length > 0)) search(1, tolerant.join(" AND "));
      if (words.length > 1) search(2, this.#rarest(words, tolerant).join(" OR "));
    }
    return [...found.values()];
  }

  #matches(
    expression: string,
    { collections, project, agent, since_ms, until_ms }: TextFilter,
    limit: number,
  ): (Omit<TextHit, "stage"> & { rowid: number })[] {
    const kind = this.#kind;
    const words = `${kind}_words`;
    const conditions = [`${words} MATCH ?`];
    const values: SQLQueryBindings[] = [expression];
    const where = (condition: string, ...of: SQLQueryBindings[]): void => {
      conditions.push(condition);
      values.push(...of);
    };
    if (collections) where(`s.collection IN (${collections.map(() => "?").join(", ")})`, ...collections);
    if (project !== undefined) where("d.project = ?", project);
    if (agent !== undefined) where("d.agent = ?", agent);
    if (since_ms !== undefined) where("d.time_ms >= ?", since_ms);
    if (until_ms !== undefined) where("d.time_ms < ?", until_ms);
    const isFiltered = conditions.length > 1;
    const joined = isFiltered
      ? `CROSS JOIN ${kind}_text d ON d.id = ${words}.rowid CROSS JOIN ${kind}_source s ON s.id = d.source`
      : "";
    return this.#all(
      `SELECT d.id AS rowid, f.score, s.collection, s.name AS source, d.name AS id, d.time_ms, d.text, d.data
       FROM (
         SELECT id, score FROM (
           SELECT ${words}.rowid AS id, -bm25(${words}) AS score FROM ${words} ${joined}
           WHERE ${conditions.join(" AND ")} ORDER BY ${words}.rowid DESC LIMIT ${MAX_CANDIDATES}
         ) ORDER BY score DESC, id DESC LIMIT ?
       ) f JOIN ${kind}_text d ON d.id = f.id JOIN ${kind}_source s ON s.id = d.source
       ORDER BY f.score DESC, d.id DESC`,
      ...values,
      limit,
    );
  }

  /** The words that are in few texts: the expression of all of them would rank most texts of the index. */
  #rarest(words: readonly QueryWord[], expressions: readonly string[]): string[] {
    const counted = words
      .map((word, at) => ({ expression: expressions[at] ?? "", count: this.#count(word.terms[0] ?? "") }))
      .toSorted((a, b) => a.count - b.count);
    let sum = 0;
    const rare = counted.filter(({ count }, at) => {
      sum += count;
      return at === 0 || sum <= MAX_CANDIDATES;
    });
    return rare.map(({ expression }) => expression);
  }

  #count(term: string): number {
    return (
      this.#all<{ doc: number }>(`SELECT doc FROM ${this.#kind}_vocabulary WHERE term = ?`, term)[0]?.doc ?? 0
    );
  }

  /** The terms in the index that a word with one typo may mean. */
  #similarTo(word: QueryWord): string[] {
    const term = word.terms[0] ?? "";
    if (!allowsTypo(word)) return [];
    const known = knownChars(term);
    const lengths = [term.length - 1, term.length + 1];
    const alike = (table: string, of: string): string[] =>
      this.#all<{ term: string }>(
        `SELECT term FROM ${this.#kind}_${table} WHERE term >= ? AND term < ? AND length(term) BETWEEN ? AND ?`,
        of.slice(0, known),
        `${of.slice(0, known)}\u{10ffff}`,
        ...lengths,
      ).map((row) => row.term);
    const candidates = new Set([
      ...alike("term", term),
      ...alike("term_reversed", reversed(term)).map(reversed),
    ]);
    return [...candidates]
      .filter((one) => isTypoOf(one, term))
      .map((one) => ({ one, count: this.#count(one) }))
      .filter(({ count }) => count > 0)
      .toSorted((a, b) => b.count - a.count)
      .slice(0, MAX_SIMILAR)
      .map(({ one }) => one);
  }

  /** The terms of a text as the full-text table splits them: at blanks. */
  #termsOf(text: string): string {
    let terms = "";
    eachWord(text, (word) => {
      for (const term of word.terms) {
        terms += `${term} `;
        if (!word.pairs && !this.#knownTerms.has(term)) this.#addTerm(term);
      }
    });
    return terms;
  }

  #addTerm(term: string): void {
    if (!isWord(term)) return;
    if (this.#knownTerms.size >= MAX_KNOWN_TERMS) this.#knownTerms.clear();
    this.#knownTerms.add(term);
    this.#run(`INSERT OR IGNORE INTO ${this.#kind}_term (term) VALUES (?)`, term);
    this.#run(`INSERT OR IGNORE INTO ${this.#kind}_term_reversed (term) VALUES (?)`, reversed(term));
  }

  /** A rolled back transaction takes its terms back. */
  forgetTerms(): void {
    this.#knownTerms.clear();
  }

  #sourceId(collection: string, source: string): number | undefined {
    return this.#all<{ id: number }>(
      `SELECT id FROM ${this.#kind}_source WHERE collection = ? AND name = ?`,
      collection,
      source,
    )[0]?.id;
  }

  #all<Row>(sql: string, ...values: SQLQueryBindings[]): Row[] {
    return this.#db.query<Row, SQLQueryBindings[]>(sql).all(...values);
  }

  #run(sql: string, ...values: SQLQueryBindings[]) {
    return this.#db.query(sql).run(...values);
  }
}

function reversed(term: string): string {
  return [...term].reverse().join("");
}

const PAGE_BYTES = 4096;

/** A derived index of texts: it can be lost at any time, and is then built again. */
export class TextDatabase {
  readonly #file: IndexFile;
  readonly #kind: TextKind;
  readonly #opened: (texts: TextIndex) => void;
  #texts: { db: Database; index: TextIndex } | undefined;

  /** `opened` is called each time that the database file is opened. */
  constructor(file: IndexFile, kind: TextKind, opened: (texts: TextIndex) => void = () => {}) {
    this.#file = file;
    this.#kind = kind;
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

  /** The size of a database that is only in memory, because no file can be written; 0 for a file. */
  get memoryBytes(): number {
    if (!this.#file.inMemory) return 0;
    const pages = this.#file.use(
      (db) => db.query<{ page_count: number }, []>("PRAGMA page_count").get()?.page_count ?? 0,
    );
    return pages * PAGE_BYTES;
  }

  #of(db: Database): TextIndex {
    if (this.#texts?.db !== db) {
      makeTables(db, `${this.#kind}_source`, textTables(this.#kind));
      this.#texts = { db, index: new TextIndex(db, this.#kind) };
      this.#opened(this.#texts.index);
    }
    return this.#texts.index;
  }
}
