/** Takes back what a run changed, file by file: each is replaced at once, unless another program has changed it since. */

import { constants } from "node:fs";
import { type FileHandle, lstat, open, rename, symlink, unlink } from "node:fs/promises";
import { isAbsolute, join } from "node:path";
import { FileStates } from "../../kernel/files/file-states.ts";
import { OpenFolder } from "../../kernel/files/open-folder.ts";
import { errnoOf } from "../../lib/error-detail.ts";
import { pathOf } from "../../lib/file-name.ts";
import { eachParallel } from "../../lib/parallel.ts";
import { SyscallError } from "../../plugin/index.ts";
import type { UndoneFile } from "../../protocol/methods.ts";
import type { ChangeDraft, FileState } from "../../store/changes/change-log.ts";
import { type ChangeHistory, netChanges } from "../../store/changes/fold-changes.ts";
import { blobName, type ObjectStore } from "../../store/changes/object-store.ts";
import { sameState } from "../../store/changes/same-state.ts";

const CREATE = constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW;
const MODE_BITS = 0o7777;
/** Maximum files that are written in parallel: each waits for the disk. */
const MAX_PARALLEL = 8;
/** A present file that is larger is not compared. */
const MOST_COMPARED = 128 * 1024 ** 2;

const ONLY_COPY =
  "it is the only copy of a file that the run moved, and that does not come back under its former name";

type Numbered = [i: number, file: PlannedFile];
type Done = Omit<UndoneFile, "added" | "removed">;
type UndoDraft = Omit<Extract<ChangeDraft, { t: "undo" | "undoing" }>, "ts">;

/** The record of an undo that a crash interrupted: removes its temporary files and names the finished ones. */
export async function interruptedLine(
  files: UndoFiles,
  line: ChangeHistory["undos"][number],
  ts: string,
): Promise<ChangeDraft> {
  return { ...line, t: "undo", ts, files: await files.finished(line) };
}

interface UndoFilesOptions {
  store: ObjectStore;
  /** Absolute. */
  project: string;
}

export class UndoFiles {
  readonly #o: UndoFilesOptions;
  readonly #states: FileStates;

  constructor(o: UndoFilesOptions) {
    this.#o = o;
    // Only the names of contents are needed.
    const put = (content: Uint8Array): Promise<string> => blobName("sha1", content);
    this.#states = new FileStates({ put, most: MOST_COMPARED, format: "sha1" });
  }

  /** What `apply` would do. */
  async look(plan: UndoPlan, { force }: { force: boolean }): Promise<Done[]> {
    return this.#each(plan, force, async (file) => (await this.#decide(file, force)).done);
  }

  /**
   * Removals come first, because a file may stand where a folder was. What may be the only copy of a file that the run
   * moved comes last, and only when its content has another name.
   */
  async #each(
    plan: UndoPlan,
    force: boolean,
    act: (file: PlannedFile, i: number) => Promise<Done>,
  ): Promise<Done[]> {
    const wanted = new Set(plan.files.flatMap(({ to }) => to?.oid ?? []));
    const results = new Map<PlannedFile, Done>();
    const placed = new Set<string>();
    const one = async ([i, file]: Numbered): Promise<void> => {
      const done = await act(file, i);
      results.set(file, done);
      if (done.done !== "refused" && file.to?.oid) placed.add(file.to.oid);
    };
    const isCopy = ({ from }: PlannedFile): boolean =>
      from?.moved !== undefined || wanted.has(from?.oid ?? "");
    const hasOtherName = async ({ path, from }: PlannedFile): Promise<boolean> => {
      if (force || placed.has(from?.oid ?? "") || (await this.#names(path)) > 1) return true;
      return from?.moved !== undefined && (await this.#now(from.moved))?.oid === from.oid;
    };
    // Each that can go has another name, or gets one by another that can.
    const able = async (files: Numbered[]): Promise<Numbered[]> => {
      let rest = files;
      for (let before = -1; rest.length !== before; ) {
        before = rest.length;
        const soon = new Set(rest.map(([, { to }]) => to?.oid));
        rest = await filtered(rest, async ([, file]) => {
          const isFree = !isCopy(file) || soon.has(file.from?.oid) || (await hasOtherName(file));
          return isFree && (await this.#decide(file, force)).done.done !== "refused";
        });
      }
      return rest;
    };
    const files = inOrder(plan.files);
    const folders = new Set(plan.files.flatMap(({ path, to }) => (to === null ? [] : foldersAbove(path))));
    const inTheWay = files.filter(([, file]) => file.to === null && isCopy(file) && folders.has(file.path));
    const free = new Set(inTheWay.length > 0 ? await able(files) : []);
    // A folder is removed after what is in it, so one after the other.
    for (const each of files.filter(([, file]) => file.to === null && !isCopy(file))) await one(each);
    for (const each of inTheWay) if (free.has(each)) await one(each);
    const left = files.filter(([, file]) => file.to !== null && !isCopy(file));
    await eachParallel(left, MAX_PARALLEL, one);
    const copies = files.filter(([, file]) => !results.has(file));
    for (const each of await able(copies)) await one(each);
    for (const [, file] of copies.filter((each) => !results.has(each[1]))) {
      const { done } = await this.#decide(file, force);
      const stays = { path: file.path, done: "refused" as const, reason: ONLY_COPY, forcible: true };
      results.set(file, done.done === "refused" || done.done === "unchanged" ? done : stays);
    }
    return plan.files.flatMap((file) => results.get(file) ?? []);
  }

  /** How many names the file has. */
  async #names(path: string): Promise<number> {
    return (await lstat(pathOf(this.#absolute(path))).catch(() => null))?.nlink ?? 0;
  }

  /** Changes the files. `record` stores its begin and its end, so that it can be continued after a crash. */
  async apply(
    plan: UndoPlan,
    { force }: { force: boolean },
    record: (line: UndoDraft) => Promise<void>,
  ): Promise<Done[]> {
    const { id, redo, toStep: to_step } = plan;
    const lineOf = (t: "undoing" | "undo", files: readonly PlannedFile[]): UndoDraft => ({
      t,
      id,
      redo,
      to_step,
      files: files.map(({ path, from, to }) => ({ path, from, to })),
    });
    if (plan.files.length === 0) return [];
    await record(lineOf("undoing", plan.files));
    const finished: PlannedFile[] = [];
    const results = await this.#each(plan, force, async (file, i) => {
      const { result, from } = await this.#undo(file, force, temporaryName(id, i));
      if (result.done !== "refused") finished.push({ ...file, from });
      return result;
    });
    await record(lineOf("undo", finished));
    return results;
  }

  /** Returns the files of an interrupted undo that have their new state already. */
  async finished({
    id,
    files,
  }: Pick<UndoPlan, "id"> & { files: Pick<PlannedFile, "path" | "from" | "to">[] }) {
    const done: typeof files = [];
    for (const [i, file] of files.entries()) {
      const { root, parts } = this.#place(file.path);
      const folder = await OpenFolder.below(root, parts.slice(0, -1), false).catch(() => null);
      if (folder) await unlink(folder.of(temporaryName(id, i))).catch(unlessMissing);
      await folder?.close();
      if (sameState(await this.#now(file.path), file.to)) done.push(file);
    }
    return done;
  }

  async #decide(
    file: PlannedFile,
    force: boolean,
  ): Promise<{ done: Done; now: FileState | null; content?: Uint8Array }> {
    const { path, from, to, mixed } = file;
    const now = await this.#now(path);
    const refused = (reason: string, forcible = false) => ({
      done: { path, done: "refused" as const, reason, forcible },
      now,
    });
    const was = (done: Done["done"]) => ({ path, done, reason: null, forcible: false });
    const other = [now, to, from].find((state) => state?.kind === "other");
    if (other) return refused(other.lost ?? "it is left alone");
    if (sameState(now, to)) return { done: was("unchanged"), now };
    // The file at this path may be the only copy of a file that the run moved.
    if (now && from?.older)
      return refused("it is older than the run, which moved it here: move it back first");
    if (to?.oid === null) return refused(`its former content was not kept: ${to.lost ?? "unknown"}`);
    if (!force) {
      if (mixed) return refused("another program changed it between two changes of the run", true);
      if (!sameState(now, from)) return refused(changedSince(now, from), true);
    }
    if (from?.oid && from.moved && (await this.#o.store.get(from.oid)) === null)
      return refused("it is the only copy of a file that the run moved: the record has lost its content");
    if (to === null) return { done: was("removed"), now };
    const content = await this.#o.store.get(to.oid);
    if (content === null) return refused("its former content is missing or damaged in the run's record");
    return { done: was(now === null ? "recreated" : "restored"), now, content };
  }

  async #undo(
    file: PlannedFile,
    force: boolean,
    temporary: string,
  ): Promise<{ result: Done; from: FileState | null }> {
    const { done: result, now, content } = await this.#decide(file, force);
    // What was not replaced has nothing to redo: it stays as it is.
    if (result.done === "refused" || result.done === "unchanged") return { result, from: now };
    try {
      // What --force overwrites can be had again by --redo.
      const from = force && now && !sameState(now, file.from) ? await this.#keep(file.path, now) : now;
      await this.#replace(file, now, content, temporary);
      return { result, from };
    } catch (thrown) {
      if (errnoOf(thrown) === undefined && !(thrown instanceof ChangedMeanwhile)) throw thrown;
      const { path, from } = file;
      return { result: { path, done: "refused", reason: reasonOf(thrown), forcible: false }, from };
    }
  }

  /** Everything happens in the open folder: a link in its path would lead elsewhere. */
  async #replace(
    file: PlannedFile,
    now: FileState | null,
    content: Uint8Array | undefined,
    temporary: string,
  ): Promise<void> {
    const { root, parts } = this.#place(file.path);
    const name = parts.at(-1) ?? "";
    const folder = await OpenFolder.below(root, parts.slice(0, -1), file.to !== null);
    if (folder === null) return;
    try {
      const target = pathOf(folder.of(name));
      const seen = await lstat(target).catch(nullIfMissing);
      if (file.to === null || content === undefined) {
        await this.#requireStill(file.path, now);
        await unlink(target);
      } else {
        await writeTemporary(folder.of(temporary), file.to, content, seen);
        try {
          await this.#requireStill(file.path, now);
          await rename(folder.of(temporary), target);
        } catch (thrown) {
          await unlink(folder.of(temporary));
          throw thrown;
        }
      }
    } finally {
      await folder.close();
    }
    if (file.to === null) await this.#removeFolders(file.folders);
  }

  async #requireStill(path: string, expected: FileState | null): Promise<void> {
    const now = await this.#now(path);
    if (!sameState(now, expected) && !(now?.oid === null && expected?.oid === null))
      throw new ChangedMeanwhile();
  }

  /** Deepest first. A folder that holds anything else stays. */
  async #removeFolders(folders: readonly string[]): Promise<void> {
    for (const path of folders.toSorted((a, b) => b.length - a.length)) {
      const { root, parts } = this.#place(path);
      const above = await OpenFolder.below(root, parts.slice(0, -1), false).catch(() => null);
      await above?.removeEmpty(parts.at(-1) ?? "");
      await above?.close();
    }
  }

  async #keep(path: string, now: FileState): Promise<FileState> {
    const keeping = new FileStates({
      put: (content) => this.#o.store.put(content),
      most: MOST_COMPARED,
      format: "sha1",
    });
    return (await keeping.read(this.#absolute(path)))?.state ?? now;
  }

  async #now(path: string): Promise<FileState | null> {
    return (await this.#states.read(this.#absolute(path)))?.state ?? null;
  }

  #absolute(path: string): string {
    return isAbsolute(path) ? path : join(this.#o.project, path);
  }

  #place(path: string): { root: string; parts: string[] } {
    const root = isAbsolute(path) ? "/" : this.#o.project;
    const parts = path.split("/").filter((part) => part !== "" && part !== ".");
    if (!parts.includes("..")) return { root, parts };
    throw new SyscallError("INVALID", `${path} in the record of changes leads out of the project.`);
  }
}

/** Another program changed the file between the look at it and its replacement. */
class ChangedMeanwhile extends Error {}

/** Removals come first, the deepest ones before all: a file may stand where a folder was, and the other way round. */
function inOrder(files: readonly PlannedFile[]): Numbered[] {
  const removed = ({ to }: PlannedFile): number => (to === null ? 0 : 1);
  return [...files.entries()].sort(
    ([, a], [, b]) => removed(a) - removed(b) || (removed(a) === 0 ? compare(b, a) : compare(a, b)),
  );
}

function foldersAbove(path: string): string[] {
  const parts = path.split("/").slice(0, -1);
  return parts.map((_, i) => parts.slice(0, i + 1).join("/"));
}

async function filtered<T>(all: readonly T[], test: (one: T) => Promise<boolean>): Promise<T[]> {
  const found: T[] = [];
  for (const one of all) if (await test(one)) found.push(one);
  return found;
}

function compare(a: PlannedFile, b: PlannedFile): number {
  return a.path < b.path ? -1 : 1;
}

function temporaryName(id: string, at: number): string {
  return `.rnix-undo-${id}-${at}.tmp`;
}

async function writeTemporary(
  path: string,
  state: FileState,
  content: Uint8Array,
  seen: Awaited<ReturnType<typeof lstat>> | null,
): Promise<void> {
  if (state.kind === "link") return symlink(Buffer.from(content), path);
  const present = seen?.isFile() ? Number(seen.mode) & MODE_BITS : undefined;
  const usual = state.kind === "exec" ? 0o777 : 0o666;
  const mode = state.mode ?? (present === undefined ? undefined : executable(present, state.kind));
  // Its content may be private: never readable for more users than the file itself.
  const handle = await open(path, CREATE, mode === undefined ? usual : mode & 0o600);
  try {
    await handle.writeFile(content);
    if (seen?.isFile()) await keepOwner(handle, Number(seen.uid), Number(seen.gid));
    if (mode !== undefined) await handle.chmod(mode);
    await handle.datasync();
  } finally {
    await handle.close();
  }
}

/** git knows of a file's permissions only whether it is executable. */
function executable(mode: number, kind: FileState["kind"]): number {
  return kind === "exec" ? mode | ((mode & 0o444) >> 2) : mode & ~0o111;
}

async function keepOwner(handle: FileHandle, uid: number, gid: number): Promise<void> {
  const now = await handle.stat();
  if (now.uid === uid && now.gid === gid) return;
  try {
    await handle.chown(uid, gid);
  } catch (thrown) {
    // Only root may change the owner; otherwise the file belongs to this user, as with any editor.
    if (errnoOf(thrown) !== "EPERM") throw thrown;
  }
}

function changedSince(now: FileState | null, from: FileState | null): string {
  if (from?.oid === null)
    return `what the run left was not kept, so changes since can't be seen: ${from.lost ?? ""}`;
  if (now === null) return "it was deleted since";
  if (from === null) return "it was created again since";
  return now.oid === null ? `it can't be compared: ${now.lost}` : "it was changed since";
}

function reasonOf(thrown: unknown): string {
  if (thrown instanceof ChangedMeanwhile) return "it was changed just now";
  switch (errnoOf(thrown)) {
    case "ELOOP":
    case "ENOTDIR":
      return "a folder in its path is a link or a file now";
    case "EISDIR":
    case "ENOTEMPTY":
    case "EEXIST":
      return "a folder stands in its place";
    case "EACCES":
    case "EPERM":
    case "EROFS":
      return `writing there is not permitted (${errnoOf(thrown)})`;
    default:
      return `the system refused it (${errnoOf(thrown)})`;
  }
}

function nullIfMissing(thrown: unknown): null {
  if (errnoOf(thrown) === "ENOENT") return null;
  throw thrown;
}

function unlessMissing(thrown: unknown): void {
  if (errnoOf(thrown) === undefined) throw thrown;
}

/** A file that is to become `to`, if it is still `from`. */
interface PlannedFile {
  path: string;
  from: FileState | null;
  to: FileState | null;
  /** Folders to remove when they are empty then. */
  folders: string[];
  /** Another program changed the file between two changes of the run. */
  mixed: boolean;
}

interface UndoPlan {
  id: string;
  redo: boolean;
  toStep: number;
  files: PlannedFile[];
}

export function planUndo(history: ChangeHistory, toStep: number): UndoPlan {
  const files = netChanges(history, { after: toStep }).map(({ path, before, after, folders, mixed }) => ({
    path,
    from: after,
    to: before,
    folders,
    mixed,
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
    path,
    from: to,
    to: from,
    folders: [],
    mixed: false,
  }));
  return { id: last?.id ?? "", redo: true, toStep: last?.to_step ?? 0, files };
}
