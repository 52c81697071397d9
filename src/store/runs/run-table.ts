/** The tables of the index of runs: rows to filter and sort by, and the records. */

import type { Database, SQLQueryBindings } from "bun:sqlite";
import { isClosed } from "./run-files.ts";
import {
  filtersIn,
  matchesFilter,
  type RecordFacts,
  RUN_FILTERS,
  type RunFilter,
  type RunRow,
  statusOf,
} from "./run-row.ts";
import type { ProcInfo } from "./schema.ts";

/** `row` and `text` are JSON; the other columns of `run` are what is filtered by. */
export const RUN_TABLES = `
  CREATE TABLE run (
    id INTEGER PRIMARY KEY, uuid TEXT NOT NULL UNIQUE, pid INTEGER NOT NULL, project TEXT NOT NULL,
    is_open INTEGER NOT NULL, agent TEXT NOT NULL, status TEXT NOT NULL, verdict TEXT,
    created_at_ms INTEGER NOT NULL, parent TEXT, size INTEGER NOT NULL, mtime_ms REAL NOT NULL,
    ino INTEGER NOT NULL, row TEXT NOT NULL
  );
  CREATE INDEX run_of_project ON run (project, pid, is_open, agent, status, verdict, created_at_ms, uuid);
  CREATE INDEX run_of_all ON run (pid, is_open, agent, status, verdict, created_at_ms, uuid);
  CREATE INDEX run_open ON run (id) WHERE is_open = 1;
  CREATE INDEX run_parent ON run (parent) WHERE parent IS NOT NULL;
  CREATE TABLE earlier_pid (pid INTEGER NOT NULL, run INTEGER NOT NULL, PRIMARY KEY (pid, run)) WITHOUT ROWID;
  CREATE TABLE record (id INTEGER PRIMARY KEY, text TEXT NOT NULL, hash TEXT NOT NULL);
  CREATE TABLE unread (uuid TEXT PRIMARY KEY, code TEXT NOT NULL, message TEXT NOT NULL) WITHOUT ROWID;
  CREATE TABLE folder (id INTEGER PRIMARY KEY CHECK (id = 1), steps_ms REAL NOT NULL, boot TEXT NOT NULL);
`;

/** A longer record is read from its own file each time. */
const MAX_RECORD_CHARS = 64 * 1024;

/** No file has these. */
const NO_FACTS: RecordFacts = { size: -1, mtimeMs: -1, ino: -1 };

export interface KnownRun {
  row: RunRow;
  facts: RecordFacts;
}

export interface PageQuery extends RunFilter {
  /** Returns the rows after this PID or UUID, in ascending order. */
  after?: number | string;
  /** The last ones instead of the first ones; still ascending. */
  newest?: boolean;
  limit?: number;
  /** UUIDs that are left out. */
  except?: readonly string[];
}

/** The folder `steps/` that the tables were made from, to see what may have changed since. */
export interface FolderState {
  stepsMs: number;
  boot: string;
}

/** Reads and writes the tables. Every method is synchronous. */
export class RunTable {
  readonly #db: Database;

  constructor(db: Database) {
    this.#db = db;
  }

  uuids(): string[] {
    return this.#all<{ uuid: string }>("SELECT uuid FROM run").map(({ uuid }) => uuid);
  }

  /** Runs without a readable record. */
  unread(): { uuid: string; code: string; message: string }[] {
    return this.#all("SELECT uuid, code, message FROM unread ORDER BY uuid");
  }

  /** The records of these runs when they were read. */
  facts(uuids: readonly string[]): Map<string, RecordFacts> {
    const found = this.#all<RecordFacts & { uuid: string }>(
      "SELECT uuid, size, mtime_ms AS mtimeMs, ino FROM run WHERE uuid IN (SELECT value FROM json_each(?))",
      JSON.stringify(uuids),
    );
    return new Map(found.map(({ uuid, ...facts }) => [uuid, facts]));
  }

  /** Rows by which no run is closed. */
  open(): KnownRun[] {
    return this.#known("WHERE run.is_open = 1");
  }

  page({ after, newest, limit = -1, except = [], ...filter }: PageQuery): {
    runs: KnownRun[];
    total: number;
  } {
    const { where, values } = conditionsOf(filter, except);
    const key = typeof after === "string" ? "uuid" : "pid";
    const total = this.#all<{ n: number }>(`SELECT count(*) AS n FROM run ${where}`, ...values)[0]?.n ?? 0;
    const rest = after === undefined ? "" : `AND run.${key} > ?`;
    const order = newest ? "DESC" : "ASC";
    const runs = this.#known(
      `WHERE run.id IN (SELECT id FROM run ${where} ${rest} ORDER BY run.${key} ${order} LIMIT ?) ORDER BY run.${key}`,
      ...values,
      ...(after === undefined ? [] : [after]),
      limit,
    );
    return { runs: runs.filter(({ row }) => matchesFilter(row, filter)), total };
  }

  /** The record of a run as it was validated, as JSON; undefined when it has to be read from its own file. */
  record(uuid: string, { size, mtimeMs, ino }: RecordFacts): string | undefined {
    const [found] = this.#all<{ text: string; hash: string }>(
      "SELECT text, hash FROM record JOIN run USING (id) WHERE uuid = ? AND size = ? AND mtime_ms = ? AND ino = ?",
      uuid,
      size,
      mtimeMs,
      ino,
    );
    if (found && found.hash !== hashOf(found.text))
      throw new SyntaxError(`The record of ${uuid} is damaged.`);
    return found?.text;
  }

  /** `known`: null for a record that was replaced while it was read. It is read again next time. */
  put(info: ProcInfo, row: RunRow, known: RecordFacts | null): void {
    this.remove(row.uuid);
    const { size, mtimeMs, ino } = known ?? NO_FACTS;
    const { lastInsertRowid: id } = this.#run(
      "INSERT INTO run VALUES (NULL, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
      row.uuid,
      row.pid,
      row.project,
      known && isClosed(row) ? 0 : 1,
      row.agent,
      statusOf(row),
      row.exit_reason,
      row.created_at_ms,
      row.parent_uuid,
      size,
      mtimeMs,
      ino,
      JSON.stringify(row),
    );
    for (const earlier of new Set(row.earlier_pids))
      this.#run("INSERT INTO earlier_pid (pid, run) VALUES (?, ?)", earlier, id);
    const text = JSON.stringify(info);
    if (text.length <= MAX_RECORD_CHARS)
      this.#run("INSERT INTO record (id, text, hash) VALUES (?, ?, ?)", id, text, hashOf(text));
  }

  putUnread(uuid: string, code: string, message: string): void {
    this.remove(uuid);
    this.#run("INSERT INTO unread (uuid, code, message) VALUES (?, ?, ?)", uuid, code, message);
  }

  remove(uuid: string): void {
    this.#run("DELETE FROM unread WHERE uuid = ?", uuid);
    const id = this.#all<{ id: number }>("SELECT id FROM run WHERE uuid = ?", uuid)[0]?.id;
    if (id === undefined) return;
    this.#run("DELETE FROM run WHERE id = ?", id);
    this.#run("DELETE FROM record WHERE id = ?", id);
    this.#run("DELETE FROM earlier_pid WHERE run = ?", id);
  }

  get folder(): FolderState | undefined {
    return this.#all<FolderState>("SELECT steps_ms AS stepsMs, boot FROM folder")[0];
  }

  set folder({ stepsMs, boot }: FolderState) {
    this.#run("INSERT OR REPLACE INTO folder (id, steps_ms, boot) VALUES (1, ?, ?)", stepsMs, boot);
  }

  #known(where: string, ...values: SQLQueryBindings[]): KnownRun[] {
    return this.#all<{ row: string; size: number; mtimeMs: number; ino: number }>(
      `SELECT row, size, mtime_ms AS mtimeMs, ino FROM run ${where}`,
      ...values,
    ).map(({ row, ...facts }) => ({ row: JSON.parse(row), facts }));
  }

  #all<Row>(sql: string, ...values: SQLQueryBindings[]): Row[] {
    return this.#db.query<Row, SQLQueryBindings[]>(sql).all(...values);
  }

  #run(sql: string, ...values: SQLQueryBindings[]) {
    return this.#db.query(sql).run(...values);
  }
}

/** Against a part of a file that was lost: the database does not see each of them. */
function hashOf(text: string): string {
  return Bun.hash(text).toString(36);
}

function conditionsOf(
  filter: RunFilter,
  except: readonly string[],
): { where: string; values: SQLQueryBindings[] } {
  const names = filtersIn(filter);
  const others = except.length > 0 ? ["run.uuid NOT IN (SELECT value FROM json_each(?))"] : [];
  const conditions = ["run.is_open = 0", ...names.map((name) => RUN_FILTERS[name].sql), ...others];
  const values = [...names.map((name) => filter[name] ?? null), ...others.map(() => JSON.stringify(except))];
  return { where: `WHERE ${conditions.join(" AND ")}`, values };
}
