/** Plans an undo or a redo from the recorded changes of a run: which files get which former state. */

import type { FileState } from "../../store/changes/change-log.ts";
import { type ChangeHistory, netChanges } from "../../store/changes/fold-changes.ts";
import { sameState } from "../../store/changes/same-state.ts";

/** A file that is to become `to`, if it is still `from`. */
export interface PlannedFile {
  path: string;
  from: FileState | null;
  to: FileState | null;
  /** Folders to remove when they are empty then. */
  folders: string[];
  /** Another program changed the file between two changes of the run. */
  mixed: boolean;
}

export interface UndoPlan {
  id: string;
  redo: boolean;
  toStep: number;
  files: PlannedFile[];
}

export function planUndo(history: ChangeHistory, toStep: number): UndoPlan {
  const files = netChanges(history, { after: toStep }).map(({ path, before, after, folders, mixed }) => ({
    ...{ path, from: after, to: before, folders, mixed },
  }));
  return { id: crypto.randomUUID(), redo: false, toStep, files };
}

/** The last undo that took something back and was not redone. Without one there is nothing to do. */
export function planRedo({ undos }: ChangeHistory): UndoPlan {
  const open: ChangeHistory["undos"] = [];
  const replaced = undos.map((line) => ({
    ...line,
    files: line.files.filter(({ from, to }) => !sameState(from, to)),
  }));
  for (const line of replaced.filter(({ files }) => files.length > 0)) {
    if (!line.redo) open.push(line);
    else
      open.splice(
        open.findLastIndex(({ id }) => id === line.id),
        1,
      );
  }
  const last = open.at(-1);
  const files = (last?.files ?? []).map(({ path, from, to }) => ({
    ...{ path, from: to, to: from, folders: [], mixed: false },
  }));
  return { id: last?.id ?? "", redo: true, toStep: last?.to_step ?? 0, files };
}
