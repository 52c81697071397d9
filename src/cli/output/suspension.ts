/** Formats why a run is suspended and what will wake it. */

import type { ProcInfo } from "../../kernel/types.ts";

type Suspended = NonNullable<ProcInfo["suspended"]>;

/** The wake in short form, for a column of rnix ps. */
export function waitsFor({ wake }: Pick<Suspended, "wake">): string {
  switch (wake.on) {
    case "at":
      return `until ${localTime(wake.at_ms)}`;
    case "child":
      return `child ${wake.uuid}`;
    case "message":
      return "a message";
    case "answer":
      return `rnix answer ${wake.id}`;
    case "unit":
      return `unit ${wake.id}`;
    case "never":
      return "rnix resume";
  }
}

/** Why the run was suspended and how `command` resumes it: the last line of its command. */
export function suspendedLine(command: string, suspended: Suspended | null): string {
  if (suspended === null || suspended.wake.on === "never") return `suspended; to resume it: ${command}`;
  const why = suspended.reason.replace(/[.\s]+$/, "");
  if (suspended.wake.on === "answer")
    return `suspended: ${why}. Answer it: rnix answer ${suspended.wake.id} yes, or no; that resumes it`;
  const what = waitsFor(suspended);
  const by = suspended.by_itself ? "it resumes by itself, at once with" : "to resume it then:";
  return `suspended: ${why}. It waits ${suspended.wake.on === "at" ? "" : "for "}${what}; ${by} ${command}`;
}

/** A local time, to the second. For an invalid date in a record, the nearest valid one. */
function localTime(said: number): string {
  const ms = Math.max(0, Math.min(said, LAST_DATE));
  const date = new Date(ms - new Date(ms).getTimezoneOffset() * 60_000);
  return date.toISOString().slice(0, 19).replace("T", " ");
}

/** 9999-12-30, the last date with four digits for the year in all time zones. */
const LAST_DATE = Date.UTC(9999, 11, 30);
