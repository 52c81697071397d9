/** A recorded run, and what reads it. */

import type { ProcInfo } from "../../kernel/types.ts";
import type { RunStore } from "../../store/runs/run-store.ts";

/** The reading methods of one data folder's store. */
export type RunReader = Pick<
  RunStore,
  | "dataDir"
  | "dir"
  | "checkBlob"
  | "readBlob"
  | "index"
  | "collected"
  | "info"
  | "meta"
  | "find"
  | "steps"
  | "units"
  | "events"
  | "inbox"
  | "story"
  | "everyStep"
  | "everyEvent"
  | "linked"
  | "claimant"
>;

/** A run and its records. */
export interface Run {
  info: ProcInfo;
  records: RunReader;
}
