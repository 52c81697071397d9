/** A recorded run, and what reads it. */

import type { ProcInfo } from "../../kernel/types.ts";
import { DamageCollector } from "../../store/files/damaged-lines.ts";
import type { RunReader } from "../../store/runs/run-store.ts";

export interface Run {
  info: ProcInfo;
  records: RunReader;
}

/** Collects which records of a run can't be read or are foreign, to report them with the rest. */
export function damageOf({ records, info }: Run): DamageCollector {
  const live = info.ended_at_ms === null && info.exit_code === null;
  return new DamageCollector({ live, dir: records.dir(info.uuid) });
}
