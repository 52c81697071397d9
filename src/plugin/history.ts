/** The service `history`: the recorded runs. */

/** The recorded runs of all the user's projects, live and ended, as `rnix log` in the run's shell shows them. */
export interface History {
  /** Oldest first. Absent fields of the query take all runs. */
  runs(query: RunQuery): Promise<RunInfo[]>;
  /**
   * The records of finished steps after step `after`, in order, at most `max` (docs/plugins.md). An unreadable record is
   * left out, so its number is missing. Fails with NOT_FOUND for an unknown run.
   */
  steps(uuid: string, after: number, max: number): Promise<object[]>;
}

/** Which runs are wanted. A foreign run, which another user's Rnix recorded, is one of them. */
export interface RunQuery {
  /** The beginning of a UUID. */
  uuid?: string;
  /** The UUID of the parent. */
  parent?: string;
  /** A project's folder, absolute. */
  project?: string;
  agent?: string;
  /** The `exit_reason`, such as `completed` or `check_failed`. */
  verdict?: string;
  /** Of the spawn, in Unix ms: from `since_ms`, and before `until_ms`. */
  since_ms?: number;
  until_ms?: number;
  /** The UUID of the last run of the page before. */
  after?: string;
  /** At most 1,000. */
  limit: number;
}

/** The summary of a recorded run. */
export interface RunInfo {
  uuid: string;
  pid: number;
  parent_uuid: string | null;
  kind: "agent" | "supervisor" | "command";
  agent: string;
  intent: string;
  provider: string;
  model: string;
  /** Absolute, as `project` is. */
  cwd: string;
  project: string;
  /** Unix ms, of the spawn. */
  created_at_ms: number;
  /** Unix ms; null for a live run. A suspended run counts as ended until it is resumed. */
  ended_at_ms: number | null;
  exit_code: number | null;
  exit_reason: string | null;
}
