/** Answers of `diff` and `undo`: what a run changed in its project, and what was taken back. */

import type { TakenFile } from "../kernel/kernel-ports.ts";
import type { ProcRef } from "./fields.ts";

/**
 * How the changes of a run are known. `git`: all files of the git work tree that are not ignored, by snapshots before
 * each step with effects. `writes`: only files that tools reported, such as Write and Edit. `none`: the run has made no
 * call that may change files, or it has no record of them.
 */
type ChangeSource = "git" | "writes" | "none";

/** One file that a run changed. A renamed file is one that was deleted and one that was added. */
export interface FileChange {
  /** Relative to the project; absolute for a file outside of it. */
  path: string;
  status: "added" | "modified" | "deleted" | "mode";
  /** Lines; null for a binary file, or if the content before or after was not kept. */
  added: number | null;
  removed: number | null;
  /** The steps that changed it. */
  steps: number[];
  /** Its changes were taken back by `undo`. It is not part of the patch. */
  undone: boolean;
  /** Why it can't be shown or taken back in full; null: it can. */
  problem: string | null;
}

/** How many files and lines a step changed. */
export interface StepChanges {
  files: number;
  added: number;
  removed: number;
}

/** The answer of `diff`. */
export interface RunDiff extends ProcRef {
  source: ChangeSource;
  /** Absolute. */
  project: string;
  files: FileChange[];
  /** Of each step with changes. */
  steps: (StepChanges & { step: number })[];
  /** A patch for `git apply` in the project; null when it was not asked for, or git is not there. */
  patch: string | null;
  /** What is not known or not covered, for the user. */
  notes: string[];
}

/** What `undo` did, or would do, with one file. */
export interface UndoneFile {
  path: string;
  /** `unchanged`: it already was as it shall be. `refused`: nothing was done. */
  done: "restored" | "removed" | "recreated" | "unchanged" | "refused";
  /** Why it was refused; otherwise null. */
  reason: string | null;
  /** It was refused, and `--force` would take it back. */
  forcible: boolean;
  /** Lines that the undo adds and removes; null for a binary file. */
  added: number | null;
  removed: number | null;
}

/** The answer of `take`. */
export interface TakeReport extends ProcRef {
  /** Absolute. */
  project: string;
  dry_run: boolean;
  files: TakenFile[];
}

/** The answer of `undo`. */
export interface UndoReport extends ProcRef {
  source: ChangeSource;
  /** Absolute. */
  project: string;
  redo: boolean;
  dry_run: boolean;
  /** The last step whose changes stay; 0: none stays. */
  to_step: number;
  files: UndoneFile[];
  /** How many of `files` were refused. */
  refused: number;
  /** What an undo does not take back, for the user. */
  warnings: string[];
  notes: string[];
}
