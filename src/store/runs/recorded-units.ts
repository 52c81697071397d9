/** Reads what the record of a run says of its units. */

import type { DaemonSnapshot } from "../../plugin/index.ts";
import type { UnitLine } from "../../run/unit-schema.ts";

type Line<T extends UnitLine["t"]> = Extract<UnitLine, { t: T }>;

/** A unit of the record. */
export interface RecordedUnit {
  snapshot: DaemonSnapshot;
  /** The inbox has its end. */
  announced: boolean;
  /** Of a command: when it is killed, and which silence is an event. */
  started: Pick<Line<"started">, "timeout_ms" | "stall_ms">;
  /** Of a command. */
  program?: Line<"program">;
  /** What of its output the inbox has. */
  reported?: Line<"reported">;
}

/** What the lines say of each unit, oldest first. */
export function recordedUnits(lines: readonly UnitLine[]): RecordedUnit[] {
  const units = new Map<string, RecordedUnit>();
  for (const line of lines) {
    if (line.t === "started") {
      units.set(line.snapshot.id, { snapshot: line.snapshot, announced: false, started: line });
      continue;
    }
    const unit = units.get(line.t === "ended" ? line.snapshot.id : line.id);
    if (!unit) continue;
    if (line.t === "ended") unit.snapshot = line.snapshot;
    else if (line.t === "program") unit.program = line;
    else if (line.t === "reported") unit.reported = line;
    else unit.announced = true;
  }
  return [...units.values()];
}
