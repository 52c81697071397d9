/** Formats why a run is suspended and what will wake it. */

import type { ProcInfo } from "../../kernel/types.ts";

type Suspended = NonNullable<ProcInfo["suspended"]>;

/** What it waits for, short: a column of rnix ps. */
export function waitsFor({ wake }: Pick<Suspended, "wake">): string {
  switch (wake.on) {
    case "at":
      return `until ${localTime(wake.at_ms)}`;
    case "child":
      return `child ${wake.uuid}`;
    case "message":
      return "a message";
    case "answer":
      return `answer ${wake.id}`;
    case "unit":
      return `unit ${wake.id}`;
    case "never":
      return "rnix resume";
  }
}

/** Why the run was suspended and how it resumes: the last line of its command. */
export function suspendedLine(uuid: string, suspended: Suspended | null): string {
  const command = `rnix resume ${uuid}`;
  if (suspended === null || suspended.wake.on === "never") return `suspended; to resume it: ${command}`;
  const why = suspended.reason.replace(/[.\s]+$/, "");
  const what = waitsFor(suspended);
  const by = suspended.by_itself ? "it resumes by itself, at once with" : "to resume it then:";
  return `suspended: ${why}. It waits ${suspended.wake.on === "at" ? "" : "for "}${what}; ${by} ${command}`;
}

/** Of this computer's clock, to the second. A record may hold what is no date: the nearest one, then. */
function localTime(said: number): string {
  const ms = Math.max(0, Math.min(said, LAST_DATE));
  const date = new Date(ms - new Date(ms).getTimezoneOffset() * 60_000);
  return date.toISOString().slice(0, 19).replace("T", " ");
}

/** 9999-12-30, as far as all agree on how a date is written. */
const LAST_DATE = Date.UTC(9999, 11, 30);
