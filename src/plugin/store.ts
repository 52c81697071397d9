/** The service `store`: documents and logs of a plugin. */

/**
 * Where the `store` service keeps a document: beside the run, beside the root run of its tree, in the project's data, or in
 * the user's. A fork gets a copy of "run" and "tree".
 */
export type Scope = "run" | "tree" | "project" | "user";

export interface Store {
  /** `doc` and `log` are names of letters, digits, ".", "_", "-" and "/" without "..". */
  read(scope: Scope, doc: string): Promise<{ text: string; version: string } | null>;
  /** Replaces the document atomically. `ifVersion`: the version last read, null for a new one. Fails with INVALID when it has changed. */
  replace(scope: Scope, doc: string, text: string, ifVersion: string | null): Promise<string>;
  /** Removes the document, and its folder if that is empty then. Fails with INVALID when it has another version. */
  remove(scope: Scope, doc: string, ifVersion: string): Promise<void>;
  append(scope: Scope, log: string, line: object): Promise<void>;
  /** The absolute path of a document or log, existing or not, to name it to the user. */
  path(scope: Scope, doc: string): Promise<string>;
  /** The lines after the first `after`, at most `max`. Damaged lines are skipped, and the daemon's log counts them. */
  lines(scope: Scope, log: string, after: number, max: number): Promise<object[]>;
}
