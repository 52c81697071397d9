/** The schema of `changes.jsonl`: what a run changed in files, step by step, and what was taken back. */

import { z } from "zod";
import { SCHEMA_VERSION } from "../../lib/schema-version.ts";
import { NUMBERED } from "../../run/numbered.ts";

/** A file at one time. `null` in its place: there is no such file. */
export const FileState = z.object({
  /** `other`: a folder with a repository of its own, a submodule, a FIFO; never touched. */
  kind: z.enum(["file", "exec", "link", "other"]),
  /** The name of its content, or of a link's target, in the run's object store; null: it was not kept. */
  oid: z.string().nullable(),
  /** Bytes. */
  size: z.number(),
  /** The permissions of a file; absent: not known, the index keeps only `exec`. */
  mode: z.number().optional(),
  /** The file is older than the run, and had another name when it began: it may be the user's only copy. */
  older: z.boolean().optional(),
  /** Its name when the run began, if that was another one: it may be the user's only copy, and its content is kept. */
  moved: z.string().optional(),
  /** Why the content was not kept. */
  lost: z.string().optional(),
});
export type FileState = z.infer<typeof FileState>;

const Begun = { v: z.literal(SCHEMA_VERSION), ...NUMBERED, ts: z.string() };

/** One line. Paths are relative to the project, or absolute outside of it. */
export const ChangeLine = z.discriminatedUnion("t", [
  /** A process of the run makes its first call that may change files. `git`: the whole work tree is compared. */
  z.object({ ...Begun, t: z.literal("base"), step: z.number(), source: z.enum(["git", "writes"]) }),
  z.object({
    ...Begun,
    t: z.literal("change"),
    step: z.number(),
    path: z.string(),
    before: FileState.nullable(),
    after: FileState.nullable(),
    /** Folders above it that the run has made. */
    folders: z.array(z.string()).optional(),
  }),
  /** Files that others changed while a program of the run may have changed them, too. */
  z.object({ ...Begun, t: z.literal("others"), step: z.number(), paths: z.array(z.string()) }),
  /** The process has ended and everything is listed. `complete`: nothing was missed. */
  z.object({ ...Begun, t: z.literal("end"), step: z.number(), complete: z.boolean() }),
  /**
   * Changes are about to be taken back, or with `redo` restored: `undoing`. When that is over, `undo` names the
   * files of it that were. A redo has the `id` of its undo.
   */
  z.object({
    ...Begun,
    t: z.enum(["undoing", "undo"]),
    id: z.string(),
    redo: z.boolean(),
    /** The last step whose changes stay. */
    to_step: z.number(),
    files: z.array(z.object({ path: z.string(), from: FileState.nullable(), to: FileState.nullable() })),
  }),
  /** The model was notified of the undos so far. */
  z.object({ ...Begun, t: z.literal("notified") }),
]);
export type ChangeLine = z.infer<typeof ChangeLine>;
export type ChangeDraft = ChangeLine extends infer L ? (L extends ChangeLine ? Omit<L, "v"> : never) : never;
