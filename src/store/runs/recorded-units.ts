/** Reads what the record of a run says of its units. */

import type { DaemonSnapshot } from "../../plugin/index.ts";
import type { UnitLine } from "./unit-schema.ts";

/** A unit of the record, and whether the inbox has its end. */
export interface RecordedUnit {
  snapshot: DaemonSnapshot;
  announced: boolean;
}

/** What the lines say of each unit, oldest first. */
export function recordedUnits(lines: readonly UnitLine[]): RecordedUnit[] {
  const units = new Map<string, RecordedUnit>();
  for (const line of lines) {
    if (line.t === "started" || line.t === "ended") {
      units.set(line.snapshot.id, { snapshot: line.snapshot, announced: false });
    } else if (line.t === "announced") {
      const unit = units.get(line.id);
      if (unit) unit.announced = true;
    }
  }
  return [...units.values()];
}
