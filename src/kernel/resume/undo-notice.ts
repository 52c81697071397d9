/** Notifies a run's model of the changes that the user took back. */

import { type ChangeHistory, foldChanges } from "../../store/changes/fold-changes.ts";
import type { RunStore } from "../../store/runs/run-store.ts";
import type { Process } from "../process/process.ts";

/** Maximum files named. */
const MOST_NAMED = 100;

/** Notifies once of each undo. `notify` is durable when it returns. */
export async function notifyUndos(
  proc: Process,
  runs: RunStore,
  nowMs: number,
  notify: (text: string) => Promise<void>,
): Promise<void> {
  const { records } = await runs.changes(proc.uuid);
  if (!records.some(({ t }) => t === "undoing")) return;
  const text = noticeOf(foldChanges(records));
  if (text === "") return;
  await notify(text);
  proc.record.change({ t: "notified", ts: new Date(nowMs).toISOString() });
}

function noticeOf({ unnotified, interrupted }: ChangeHistory): string {
  const last = new Map<string, boolean>();
  // A redo of a notified undo is news; one of an undo in the same list takes it off.
  for (const { redo, files } of unnotified)
    for (const { path } of files) if (!redo || !last.delete(path)) last.set(path, redo);
  const lines = [false, true].flatMap((redo) => {
    const files = [...last].sort().flatMap(([path, again]) => (again === redo ? [{ path }] : []));
    return files.length === 0 ? [] : [`${redo ? AGAIN : BACK} ${listOf(files)}.`];
  });
  if (interrupted)
    lines.push(
      `An undo of changes of this run was cut off. It may have changed: ${listOf(interrupted.files)}.`,
    );
  if (lines.length === 0) return "";
  return [...lines, "Read these files again before you rely on their content."].join("\n");
}

const BACK = "The user has taken back changes of this run:";
const AGAIN = "The user has made changes of this run again that were taken back:";

function listOf(files: readonly { path: string }[]): string {
  const more = files.length > MOST_NAMED ? `, and ${files.length - MOST_NAMED} more` : "";
  return `${files
    .slice(0, MOST_NAMED)
    .map(({ path }) => path)
    .join(", ")}${more}`;
}
