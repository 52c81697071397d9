/** Formats why a run is suspended and what will wake it. */

import type { ProcInfo } from "../../kernel/types.ts";
import { localTime } from "./format.ts";

type Suspended = NonNullable<ProcInfo["suspended"]>;

/** The wake in short form, for a column of rnix ps. */
export function waitsFor({ wake }: Pick<Suspended, "wake">): string {
  switch (wake.on) {
    case "at":
      return `until ${localTime(wake.at_ms)}`;
    case "child":
      return `child ${wake.uuid}`;
    case "message":
      return wake.until_ms === undefined ? "a message" : `a message until ${localTime(wake.until_ms)}`;
    case "answer":
      return `rnix answer ${wake.id}`;
    case "unit":
      return `unit ${wake.ids.join(", ")}`;
    case "never":
      return "rnix resume";
  }
}

/** The command that resumes a run. `flags`: those that the user gives again. */
export function resumeCommand(uuid: string, flags: readonly string[]): string {
  return ["rnix resume", uuid, ...flags].join(" ");
}

/** Why the run was suspended and how `command` resumes it: the last line of its command. */
export function suspendedLine(command: string, suspended: Suspended | null): string {
  const why = suspendedText(suspended);
  if (suspended === null || why === null) return `suspended; to resume it: ${command}`;
  if (suspended.wake.on === "answer") return why;
  const by = suspended.by_itself ? "at once with" : "to resume it then:";
  return `${why}${suspended.by_itself ? ", " : "; "}${by} ${command}`;
}

/** Why it was suspended, what it waits for, and whether it resumes by itself; null: it waits for nothing. */
export function suspendedText(suspended: Suspended | null): string | null {
  if (suspended === null || suspended.wake.on === "never") return null;
  const why = suspended.reason.replace(/[.\s]+$/, "");
  if (suspended.wake.on === "answer") {
    const { id, questions } = suspended.wake;
    const answer = questions === undefined ? "yes, or no" : Array(questions).fill('"…"').join(" ");
    return `suspended: ${why}${/[?!]$/.test(why) ? "" : "."} Answer it: rnix answer ${id} ${answer}; that resumes it`;
  }
  const waits = `It waits ${suspended.wake.on === "at" ? "" : "for "}${waitsFor(suspended)}`;
  return `suspended: ${why}. ${waits}${suspended.by_itself ? "; it resumes by itself" : ""}`;
}
