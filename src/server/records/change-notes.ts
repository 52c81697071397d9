/** What a diff or an undo does not cover, for the user. */

import type { ChangeHistory } from "../../store/changes/fold-changes.ts";
import type { Run } from "./recorded-run.ts";

/** Maximum files that one note names. */
const MAX_NAMED = 5;

/** What is not known of the changes of a run. */
export function notesOf({ source, files, others, gaps, complete }: ChangeHistory): string[] {
  const notes: string[] = [];
  if (source === "writes") {
    notes.push(
      "the project is in no git work tree, or git could not compare it: only what Write, Edit and tools like them changed is known, not what commands did",
    );
  }
  for (const step of gaps) {
    notes.push(
      `rnix ended by a crash after step ${step} had begun: what the run changed from then on is not known`,
    );
  }
  if (others.length > 0) {
    const more = others.length > MAX_NAMED ? `, and ${others.length - MAX_NAMED} more` : "";
    notes.push(
      `others changed these files while the run worked, so they do not count as its changes: ${others.slice(0, MAX_NAMED).join(", ")}${more}`,
    );
  } else if (source === "git" && !complete && files.size > 0)
    notes.push("git could not read everything, so files may be missing");
  return notes;
}

/** What an undo of the later steps does not take back. */
export async function warningsOf({ info, records }: Run, toStep: number): Promise<string[]> {
  let commands = 0;
  let servers = 0;
  for await (const { step, tool_calls } of records.everyStep(info.uuid)) {
    if (step <= toStep) continue;
    for (const { path } of tool_calls) {
      if (path?.startsWith("/dev/shell")) commands++;
      if (path?.startsWith("/mnt/")) servers++;
    }
  }
  const done = [
    commands > 0 ? `${commands} ${commands === 1 ? "command" : "commands"} of Bash` : "",
    servers > 0 ? `${servers} ${servers === 1 ? "call" : "calls"} of MCP servers` : "",
  ].filter(Boolean);
  if (done.length === 0) return [];
  return [
    `not undone: what ${done.join(" and ")} did beside these files (network, other folders, ignored files, the git repository itself)`,
  ];
}
