/** The files in a run's folder: their names, and the text of what is recorded. */

import { SCHEMA_VERSION } from "../../lib/schema-version.ts";
import { CHANGES } from "../changes/object-store.ts";
import type { RecordSeal } from "./record-seal.ts";
import type { ProcInfo, StateEvent } from "./schema.ts";

export const STEPS = "steps.jsonl";
export const JOURNAL = "step.journal";
export const EVENTS = "events.jsonl";
export const INBOX = "inbox.jsonl";
export const INFO = "proc-info.json";
export const META = "process-meta.json";
export const SPILL = "spill";
export const UNITS = "units.jsonl";
/** The folder of the units' output. */
export const UNIT_OUTPUT = "units";

/** Returns the text of a proc-info.json in this data folder, without the fields that reading adds. */
export function sealedInfo(
  info: ProcInfo,
  dataDir: string,
  seal: RecordSeal,
  states: readonly StateEvent[] = [],
): string {
  const { foreign: _foreign, moved_from: _movedFrom, ...recorded } = info;
  return seal.seal(
    INFO,
    JSON.stringify({ ...recorded, data_dir: dataDir, ...(states.length > 0 && { states }) }),
  );
}

/** The logs with the events of the run, in the order in which they are read. */
export const LOGS = [STEPS, JOURNAL, INBOX, CHANGES, UNITS];

/** Returns one line of JSON with its schema version. */
export function versioned(record: object): string {
  const json = JSON.stringify(record);
  return "v" in record ? json : `{"v":${SCHEMA_VERSION},${json.slice(1)}`;
}
