/** Reads what the record of a run says of its units. */

import type { DaemonSnapshot } from "../../plugin/index.ts";
import type { InboxEntry } from "../../run/inbox-schema.ts";
import type { UnitDraft } from "../../run/unit-schema.ts";

type Line<T extends UnitDraft["t"]> = Extract<UnitDraft, { t: T }>;

export interface RecordedUnit {
  snapshot: DaemonSnapshot;
  /** The inbox has its end. */
  announced: boolean;
  /** A command's limits: when it is killed, and after which silence it is reported as stalled. */
  started: Pick<Line<"started">, "timeout_ms" | "stall_ms">;
  program?: Line<"program">;
  /** What of its output the inbox has. */
  reported?: Line<"reported">;
}

/** What the lines say of each unit, oldest first. */
export function recordedUnits(lines: readonly UnitDraft[]): RecordedUnit[] {
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

/** The lines that are missing about entries of the inbox: a kill came between the entry and its line. */
export function missingReports(
  lines: readonly UnitDraft[],
  unread: readonly InboxEntry[],
  ts: string,
): UnitDraft[] {
  const units = new Map(recordedUnits(lines).map((unit) => [unit.snapshot.id, unit]));
  return unread.flatMap((entry): UnitDraft[] => {
    if (entry.kind !== "unit") return [];
    const { unit: id, ended, up_to, events = 0 } = entry;
    const { announced = false, reported } = units.get(id) ?? {};
    const isNew = up_to !== undefined && up_to > (reported?.up_to ?? 0);
    return [
      ...(isNew ? [{ t: "reported" as const, ts, id, up_to, events }] : []),
      ...(ended && !announced ? [{ t: "announced" as const, ts, id }] : []),
    ];
  });
}
