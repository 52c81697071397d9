/** Combines the recorded changes of a run, file by file. */

import type { ChangeLine, FileState } from "./change-log.ts";
import { sameState } from "./same-state.ts";

type Change = Extract<ChangeLine, { t: "change" }>;
type UndoLine = Extract<ChangeLine, { t: "undo" | "undoing" }>;

export interface FileHistory {
  path: string;
  changes: (Change & { undone: boolean })[];
}

export interface ChangeHistory {
  source: "git" | "writes" | "none";
  files: Map<string, FileHistory>;
  others: string[];
  /** A process of the run ended without listing its last changes: at which step it had begun. */
  gaps: number[];
  complete: boolean;
  undos: UndoLine[];
  /** Undos of which the model was not notified. */
  unnotified: UndoLine[];
  /** An undo that did not come to its end. */
  interrupted: UndoLine | undefined;
}

/** The net change of one file over the chosen steps. */
interface NetChange {
  path: string;
  before: FileState | null;
  after: FileState | null;
  steps: number[];
  folders: string[];
  /** Another program changed the file between two changes of the run. */
  mixed: boolean;
}

/** `live`: the run's process has not ended, so its log is not missing anything. */
export function foldChanges(lines: readonly ChangeLine[], live = false): ChangeHistory {
  const history: ChangeHistory = {
    source: "none",
    files: new Map(),
    others: [],
    gaps: [],
    complete: true,
    undos: [],
    unnotified: [],
    interrupted: undefined,
  };
  let open: number | undefined;
  const others = new Set<string>();
  for (const line of lines) {
    switch (line.t) {
      case "base":
        if (open !== undefined) history.gaps.push(open);
        open = line.step;
        // Once something was not compared, the list as a whole is not complete.
        history.source = history.source === "writes" ? "writes" : line.source;
        break;
      case "change":
        fileOf(history, line.path).changes.push({ ...line, undone: false });
        if (open !== undefined) open = Math.max(open, line.step);
        break;
      case "others":
        for (const path of line.paths) others.add(path);
        break;
      case "end":
        open = undefined;
        history.complete &&= line.complete;
        break;
      case "undo":
        if (history.interrupted?.id === line.id) history.interrupted = undefined;
        apply(history, line);
        break;
      case "undoing":
        history.interrupted = line;
        break;
      case "notified":
        history.unnotified = [];
        break;
    }
  }
  if (open !== undefined && !live) history.gaps.push(open);
  history.others = [...others].filter((path) => !history.files.has(path)).sort();
  return history;
}

/** An undo takes back the changes after `to_step`; a redo makes the changes that were taken back valid again. */
function apply(history: ChangeHistory, line: UndoLine): void {
  history.undos.push(line);
  history.unnotified.push(line);
  for (const { path } of line.files) {
    for (const change of history.files.get(path)?.changes ?? [])
      if (change.step > line.to_step) change.undone = !line.redo;
  }
}

/** Returns the files that differ by the run's changes in these steps; `undone`: those that were taken back. */
export function netChanges(
  { files }: Pick<ChangeHistory, "files">,
  { after = 0, until = Number.POSITIVE_INFINITY, undone = false } = {},
): NetChange[] {
  const found: NetChange[] = [];
  for (const { path, changes } of files.values()) {
    const chosen = changes.filter((one) => one.undone === undone && one.step > after && one.step <= until);
    const [first] = chosen;
    const last = chosen.at(-1);
    if (!first || !last || sameState(first.before, last.after)) continue;
    found.push({
      path,
      before: first.before,
      after: last.after,
      steps: [...new Set(chosen.map(({ step }) => step))],
      folders: [...new Set(chosen.flatMap(({ folders = [] }) => folders))],
      mixed: chosen.some((one, at) => at > 0 && !sameState(chosen[at - 1]?.after ?? null, one.before)),
    });
  }
  return found.sort((a, b) => (a.path < b.path ? -1 : 1));
}

function fileOf({ files }: ChangeHistory, path: string): FileHistory {
  const known = files.get(path) ?? { path, changes: [] };
  files.set(path, known);
  return known;
}
