/** The tables of the index of runs: rows to filter and sort by, and the records. */

import type { Database, SQLQueryBindings } from "bun:sqlite";
import type { JournalPosition } from "./changed-runs.ts";
import { isClosed } from "./closed-record.ts";
import { UUID } from "./own-run.ts";
import type { RecordSeal } from "./record-seal.ts";
import { matchesFilter, type RecordFacts, type RunFilter, type RunRow, statusOfRow } from "./run-row.ts";
import type { ProcInfo } from "./schema.ts";

/** Of the tables. */
export const RUN_TABLE_VERSION = 2;

/** `run` is what is filtered by; `entry` is what is believed, because it has a MAC. */
export const RUN_TABLE_SCHEMA = `
  CREATE TABLE run (
    id INTEGER PRIMARY KEY, uuid TEXT NOT NULL UNIQUE, pid INTEGER NOT NULL, project TEXT NOT NULL,
    is_open INTEGER NOT NULL, agent TEXT NOT NULL, status TEXT NOT NULL, verdict TEXT,
    created_at_ms INTEGER NOT NULL, parent TEXT
  );
  CREATE INDEX run_of_project ON run (project, pid, is_open, agent, status, verdict, created_at_ms, uuid);
  CREATE INDEX run_of_all ON run (pid, is_open, agent, status, verdict, created_at_ms, uuid);
  CREATE INDEX run_open ON run (id) WHERE is_open = 1;
  CREATE INDEX run_parent ON run (parent) WHERE parent IS NOT NULL;
  CREATE TABLE earlier_pid (pid INTEGER NOT NULL, run INTEGER NOT NULL, PRIMARY KEY (pid, run)) WITHOUT ROWID;
  CREATE TABLE entry (
    id INTEGER PRIMARY KEY, row TEXT NOT NULL, size INTEGER NOT NULL, mtime_ms REAL NOT NULL, ino INTEGER NOT NULL,
    sum TEXT NOT NULL
  );
  CREATE TABLE record (id INTEGER PRIMARY KEY, text TEXT NOT NULL, sum TEXT NOT NULL);
  CREATE TABLE unread (uuid TEXT PRIMARY KEY, code TEXT NOT NULL, message TEXT NOT NULL) WITHOUT ROWID;
  CREATE TABLE state (name TEXT PRIMARY KEY, value TEXT NOT NULL, sum TEXT NOT NULL) WITHOUT ROWID;
`;

/** A longer record is read from its own file each time. */
const MAX_RECORD_CHARS = 64 * 1024;

/** No file has these. */
const NO_FACTS: RecordFacts = { size: -1, mtimeMs: -1, ino: -1 };

export interface KnownRun {
  row: RunRow;
  facts: RecordFacts;
}

/** A page of closed runs. */
export interface PageQuery extends RunFilter {
  /** By PID, or by UUID; ascending, from after this one. */
  after?: number | string;
  /** The last ones instead of the first ones; still ascending. */
  newest?: boolean;
  limit?: number;
  /** UUIDs that are left out. */
  except?: readonly string[];
}

/** What the tables were made from, to see what may have changed since. */
export interface TableState {
  journal: JournalPosition;
  /** Of the folder `steps/`. */
  stepsMs: number;
  boot: string;
}

/** Reads and writes the tables. Every method is synchronous. */
export class RunTable {
  readonly #db: Database;
  readonly #seal: RecordSeal;
  /** Runs whose rows have a wrong MAC. */
  readonly #doubtful = new Set<string>();

  constructor(db: Database, seal: RecordSeal) {
    this.#db = db;
    this.#seal = seal;
  }

  uuids(): string[] {
    return this.#all<{ uuid: string }>("SELECT uuid FROM run").map(({ uuid }) => intact(uuid));
  }

  /** Runs without a readable record. */
  unread(): { uuid: string; code: string; message: string }[] {
    return this.#all<{ uuid: string; code: string; message: string }>(
      "SELECT uuid, code, message FROM unread ORDER BY uuid",
    ).map((one) => ({ ...one, uuid: intact(one.uuid) }));
  }

  known(uuid: string): KnownRun | undefined {
    return this.#known("WHERE run.uuid = ?", uuid)[0];
  }

  /** Rows by which no run is closed. */
  open(): KnownRun[] {
    return this.#known("WHERE run.is_open = 1");
  }

  /** A part of all rows, by id. */
  part(after: number, limit: number): { runs: KnownRun[]; last: number | null } {
    const last = this.#all<{ id: number | null }>(
      "SELECT max(id) AS id FROM (SELECT id FROM run WHERE id > ? ORDER BY id LIMIT ?)",
      after,
      limit,
    )[0]?.id;
    return {
      runs: last ? this.#known("WHERE run.id > ? AND run.id <= ?", after, last) : [],
      last: last ?? null,
    };
  }

  /** Closed runs and their number on all pages. */
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
  record(uuid: string, facts: RecordFacts): string | undefined {
    const [found] = this.#all<{ text: string; sum: string }>(
      "SELECT record.text, record.sum FROM record JOIN run ON run.id = record.id WHERE run.uuid = ?",
      uuid,
    );
    if (!found || found.sum !== this.#sumOf(factsText(uuid, facts), found.text)) return undefined;
    return found.text;
  }

  /** `known`: null for a record that was replaced while it was read. It is read again next time. */
  put(info: ProcInfo, row: RunRow, known: RecordFacts | null): void {
    this.remove(row.uuid);
    const facts = known ?? NO_FACTS;
    const { uuid, pid, project, agent, exit_reason, created_at_ms, parent_uuid, earlier_pids } = row;
    const { lastInsertRowid: id } = this.#run(
      "INSERT INTO run (uuid, pid, project, is_open, agent, status, verdict, created_at_ms, parent) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
      uuid,
      pid,
      project,
      known && isClosed(row) ? 0 : 1,
      agent,
      statusOfRow(row),
      exit_reason,
      created_at_ms,
      parent_uuid,
    );
    for (const earlier of new Set(earlier_pids))
      this.#run("INSERT INTO earlier_pid (pid, run) VALUES (?, ?)", earlier, id);
    const text = JSON.stringify(row);
    const { size, mtimeMs, ino } = facts;
    this.#run(
      "INSERT INTO entry (id, row, size, mtime_ms, ino, sum) VALUES (?, ?, ?, ?, ?, ?)",
      id,
      text,
      size,
      mtimeMs,
      ino,
      this.#sumOf(factsText(uuid, facts), text),
    );
    const record = JSON.stringify(info);
    if (record.length > MAX_RECORD_CHARS) return;
    this.#run(
      "INSERT INTO record (id, text, sum) VALUES (?, ?, ?)",
      id,
      record,
      this.#sumOf(factsText(uuid, facts), record),
    );
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
    this.#run("DELETE FROM entry WHERE id = ?", id);
    this.#run("DELETE FROM record WHERE id = ?", id);
    this.#run("DELETE FROM earlier_pid WHERE run = ?", id);
  }

  get state(): TableState | undefined {
    const [found] = this.#all<{ value: string; sum: string }>(
      "SELECT value, sum FROM state WHERE name = 'state'",
    );
    return found && found.sum === this.#sumOf("state", found.value) ? JSON.parse(found.value) : undefined;
  }

  set state(state: TableState) {
    const value = JSON.stringify(state);
    this.#run(
      "INSERT OR REPLACE INTO state (name, value, sum) VALUES ('state', ?, ?)",
      value,
      this.#sumOf("state", value),
    );
  }

  /** Returns the runs whose rows were left out since the last call, because their MAC is wrong. */
  takeDoubtful(): string[] {
    const doubtful = [...this.#doubtful];
    this.#doubtful.clear();
    return doubtful;
  }

  #known(where: string, ...values: SQLQueryBindings[]): KnownRun[] {
    interface Found {
      uuid: string;
      row: string;
      size: number;
      mtimeMs: number;
      ino: number;
      sum: string;
    }
    return this.#all<Found>(
      `SELECT run.uuid, entry.row, entry.size, entry.mtime_ms AS mtimeMs, entry.ino, entry.sum
       FROM run JOIN entry ON entry.id = run.id ${where}`,
      ...values,
    ).flatMap(({ uuid, row, sum, ...facts }) => {
      if (sum === this.#sumOf(factsText(uuid, facts), row)) return [{ row: JSON.parse(row), facts }];
      this.#doubtful.add(intact(uuid));
      return [];
    });
  }

  #sumOf(facts: string, text: string): string {
    return this.#seal.checksumOf(facts, text);
  }

  #all<Row>(sql: string, ...values: SQLQueryBindings[]): Row[] {
    return this.#db.query<Row, SQLQueryBindings[]>(sql).all(...values);
  }

  #run(sql: string, ...values: SQLQueryBindings[]) {
    return this.#db.query(sql).run(...values);
  }
}

/** Fails as the database does for a damaged file: then it is rebuilt. */
function intact(uuid: string): string {
  if (UUID.test(uuid)) return uuid;
  throw Object.assign(new Error(`the index has a run ${JSON.stringify(uuid)}`), { code: "SQLITE_CORRUPT" });
}

function factsText(uuid: string, { size, mtimeMs, ino }: RecordFacts): string {
  return `${uuid} ${size} ${mtimeMs} ${ino}`;
}

function conditionsOf(
  { project, agent, status, verdict, since_ms, until_ms, parent, pid }: RunFilter,
  except: readonly string[],
): { where: string; values: SQLQueryBindings[] } {
  const conditions = ["run.is_open = 0"];
  const values: SQLQueryBindings[] = [];
  const add = (condition: string, ...of: SQLQueryBindings[]): void => {
    conditions.push(condition);
    values.push(...of);
  };
  if (project !== undefined) add("run.project = ?", project);
  if (agent !== undefined) add("run.agent = ?", agent);
  if (status !== undefined) add("run.status = ?", status);
  if (verdict !== undefined) add("run.verdict = ?", verdict);
  if (since_ms !== undefined) add("run.created_at_ms >= ?", since_ms);
  if (until_ms !== undefined) add("run.created_at_ms < ?", until_ms);
  if (parent !== undefined) add("run.parent = ?", parent);
  if (pid !== undefined)
    add(
      "run.id IN (SELECT id FROM run WHERE pid = ? UNION SELECT run FROM earlier_pid WHERE pid = ?)",
      pid,
      pid,
    );
  if (except.length > 0) add("run.uuid NOT IN (SELECT value FROM json_each(?))", JSON.stringify(except));
  return { where: `WHERE ${conditions.join(" AND ")}`, values };
}
