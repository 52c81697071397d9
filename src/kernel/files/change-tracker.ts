/** Finds out what one process of a run changes in files, from step to step, and records it. */

import type { Stats } from "node:fs";
import { lstat } from "node:fs/promises";
import { dirname, isAbsolute, join } from "node:path";
import { messageOf } from "../../lib/error-detail.ts";
import { pathOf } from "../../lib/file-name.ts";
import { innerPath } from "../../lib/inner-path.ts";
import { eachParallel } from "../../lib/parallel.ts";
import { SyscallError } from "../../plugin/index.ts";
import type { ChangeDraft, FileState } from "../../store/changes/change-log.ts";
import { sameState } from "../../store/changes/same-state.ts";
import type { FileStates } from "./file-states.ts";
import { stateOfEntry } from "./file-states.ts";
import type { CallOptions } from "./git-repository.ts";
import type { Listing, ListOptions, WorkTree } from "./git-work-tree.ts";
import { type ChangeOf, type FoundChange, isEntry, MAX_PARALLEL, TreeSnapshot } from "./tree-snapshot.ts";

/** Up to this number of files are read here; more are read by git, into a private index. */
const MANY = 64;
/** How long the first call of a run waits for the contents of files that the repository does not have. */
const FIRST_MS = 2_000;

interface TrackerPorts {
  /** The project's folder, absolute. */
  dir: string;
  /** null: only files that tools report are known. The tracker closes it. */
  tree: WorkTree | null;
  /** The folder where contents are kept, and how many bytes of them. */
  kept: { objects: string; maxBytes: number };
  states: FileStates;
  record(...lines: ChangeDraft[]): void;
  now(): number;
  /** Whether a change at this time is the run's. */
  isOwn(ms: number): boolean;
  /** Whether the command that follows the run prints into this file. */
  isOutput(stat: Stats): boolean;
  /** Whether a program of the run may have changed a file that another program changed again at this time. */
  mayHide(ms: number): boolean;
  /** False where the times of files say nothing, as on some network file systems. */
  comparable(): Promise<boolean>;
  warn(text: string): void;
}

interface ReportedWrite {
  file: string;
  before: Promise<FileState | null>;
  after: Promise<FileState | null> | undefined;
}

/** `moved`: files with a new name and old times, which are the run's if it removed the same content under another name. */
interface Compared {
  found: FoundChange[];
  moved: FoundChange[];
}

/** `quiet`: changes by other programs do not make the list incomplete. */
type FlushOptions = ListOptions & { quiet?: boolean };

/** In a git work tree it compares all files that are not ignored; elsewhere it knows what tools report. */
export class ChangeTracker {
  readonly #ports: TrackerPorts;
  #tree: WorkTree | null;
  readonly #seen: TreeSnapshot;
  readonly #writes = new Map<string, ReportedWrite>();
  readonly #net = new Map<string, { before: FileState | null; after: FileState | null }>();
  /** When the first snapshot was begun. */
  readonly #begunMs: number;
  #step: number;
  #complete = true;
  /** False after a failed comparison, until one succeeds: it finds the same changes. */
  #compared = true;
  /**
   * After the calls of a step: their comparison while it is under way, then "idle" if no program of the run was left.
   * Until the next calls, changes are those of other programs.
   */
  #settled: Promise<void> | "idle" | undefined;
  /** Comparisons wait for each other. */
  #turn: Promise<void> = Promise.resolve();
  /** The part of the last comparison that no call waits for. */
  #recording: Promise<void> = Promise.resolve();

  private constructor(ports: TrackerPorts, step: number) {
    this.#ports = ports;
    this.#begunMs = ports.now();
    this.#step = step;
    this.#tree = ports.tree;
    this.#seen = new TreeSnapshot(ports);
  }

  /** Takes the first snapshot: what differs from the index, with its content. */
  static async begin(ports: TrackerPorts, step: number, call: CallOptions): Promise<ChangeTracker> {
    const tracker = new ChangeTracker(ports, step);
    const { tree } = ports;
    // A snapshot that can't be taken does not stop the run.
    if (tree && !(await tracker.#first(tree, call).catch((thrown) => tracker.#failed(thrown)))) {
      await tree.close();
      tracker.#tree = null;
    }
    const source = tracker.#tree ? "git" : "writes";
    tracker.#complete &&= source === "git";
    tracker.#record({ t: "base", ts: tracker.#ts(), step, source });
    return tracker;
  }

  /** Whether all changes were seen. */
  get complete(): boolean {
    return this.#complete && this.#compared;
  }

  /** Files that differ by the run. */
  changed(): string[] {
    return [...this.#net].flatMap(([path, { before, after }]) => (sameState(before, after) ? [] : [path]));
  }

  /** Before the first call of a step that may change files: records what the steps before have changed. */
  async next(step: number, call: CallOptions): Promise<void> {
    const settled = this.#settled;
    // A comparison that runs already is recent enough.
    await (settled instanceof Promise ? settled : this.flush({ ...call, quiet: settled === "idle" }));
    this.#settled = undefined;
    this.#step = step;
  }

  /**
   * After the calls of a step: compares before others change the same files. `isQuiet`: no program of the run is left.
   */
  async settle(call: CallOptions, isQuiet: () => boolean): Promise<void> {
    if (this.#settled instanceof Promise) return this.#settled;
    const step = this.#step;
    this.#settled = this.flush(call);
    await this.#settled;
    this.#settled = this.#step === step && isQuiet() ? "idle" : undefined;
  }

  /** Records all changes so far; when it resolves, they are on disk. */
  async refresh(): Promise<void> {
    await this.flush({ quiet: true, whole: true });
    await this.#recording;
  }

  /** Compares, and records what has changed. */
  flush(call: FlushOptions = {}): Promise<void> {
    this.#turn = this.#turn.then(() => this.#flush(call)).catch((thrown) => void this.#failed(thrown));
    return this.#turn;
  }

  #failed(thrown: unknown): false {
    this.#complete = false;
    this.#ports.warn(messageOf(thrown));
    return false;
  }

  /** A tool is about to change this file (absolute). */
  async writing(file: string): Promise<void> {
    const path = this.#shown(file);
    const begun = () => ({ file, before: this.#stateOf(file), after: undefined });
    await this.#writes.getOrInsertComputed(path, begun).before;
  }

  /** A tool has changed this file (absolute). */
  written(file: string): void {
    const path = this.#shown(file);
    const lost = "its tool did not announce the change";
    const before = Promise.resolve<FileState>({ kind: "file", oid: null, size: 0, lost });
    const write = this.#writes.getOrInsert(path, { file, before, after: undefined });
    write.after = this.#stateOf(file);
  }

  async end(call: CallOptions): Promise<void> {
    await this.flush({ ...call, whole: true });
    await this.#recording;
    this.#record({ t: "end", ts: this.#ts(), step: this.#step, complete: this.complete });
    await this.#tree?.close();
  }

  /** Takes the first snapshot. Returns false if git can't list the files. */
  async #first(tree: WorkTree, call: CallOptions): Promise<boolean> {
    const found = await this.#list(tree, call);
    const many = found && found.files.size > MANY ? keepable(found, this.#ports) : [];
    const isTaken = many.length > 0 && (await tree.take(many, this.#ports.kept.objects, call));
    const listing = isTaken ? await this.#list(tree, call) : found;
    if (!listing) return false;
    await this.#seen.begin(listing, await tree.converted(call), FIRST_MS);
    return true;
  }

  /** Returns null when git fails. */
  async #list(tree: WorkTree, call: ListOptions): Promise<Listing | null> {
    const listing = await tree.list(call).catch((thrown: unknown) => {
      this.#ports.warn(`git: ${messageOf(thrown)}`);
      return null;
    });
    this.#compared = listing?.complete ?? false;
    return listing;
  }

  async #flush(call: FlushOptions): Promise<void> {
    await this.#recording;
    const step = this.#step;
    const { found, moved } = this.#tree
      ? await this.#compare(this.#tree, step, call)
      : { found: [], moved: [] };
    found.push(...(await this.#reported(step, new Set(found.map(({ path }) => path)))));
    for (const change of found) change.folders = await this.#foldersOf(change);
    this.#recording = this.#keep(found, moved, call).catch((thrown) => void this.#failed(thrown));
  }

  async #compare(tree: WorkTree, step: number, call: FlushOptions): Promise<Compared> {
    const found: FoundChange[] = [];
    const moved: FoundChange[] = [];
    const listing = await this.#list(tree, call);
    const paths = listing ? this.#seen.changed(listing) : [];
    if (!listing || paths.length === 0) return { found, moved };
    const comparable = await this.#ports.comparable();
    const others: string[] = [];
    await eachParallel(paths, MAX_PARALLEL, async (path) => {
      const change = await this.#seen.look(path, listing);
      if (!change) return;
      const ms = comparable ? await this.#changedAt(path, listing) : undefined;
      const stat = listing.stats.get(path);
      if (stat && this.#ports.isOutput(stat)) return;
      await this.#useReported(path, change);
      const line: FoundChange = { t: "change", ts: this.#ts(), step, path, ...change };
      if (ms === undefined || this.#writes.get(path)?.after || this.#ports.isOwn(ms)) found.push(line);
      // What is in a folder keeps its times when the folder is moved.
      else if (change.before === null && ms < this.#begunMs) moved.push(line);
      else if (ms < this.#begunMs && (await this.#isInMoved(path))) found.push(line);
      else if (!call.quiet && this.#ports.mayHide(ms)) others.push(path);
    });
    if (others.length > 0) {
      this.#complete = false;
      this.#record({ t: "others", ts: this.#ts(), step, paths: others.sort() });
    }
    return { found, moved };
  }

  /** What a tool found before it wrote is what only the user's repository has, or nothing has. */
  async #useReported(path: string, change: Pick<FoundChange, "before">): Promise<void> {
    const reported = await this.#writes.get(path)?.before;
    if (!reported?.oid) return;
    const { before } = change;
    if (isEntry(before) ? before.oid === reported.oid && before.kind === reported.kind : before?.oid === null)
      change.before = reported;
  }

  /** Files that tools have reported and git does not list: ignored, outside of the work tree, or all without git. */
  async #reported(step: number, listed: ReadonlySet<string>): Promise<FoundChange[]> {
    const writes = [...this.#writes];
    this.#writes.clear();
    const found: FoundChange[] = [];
    for (const [path, { file, before: begun, after: ended }] of writes) {
      if (listed.has(path)) continue;
      const [before, after] = await Promise.all([begun, ended]);
      if (after === undefined || sameState(before, after)) continue;
      // Another call of the step may have taken it back.
      if (this.#tree && sameState(before, await this.#stateOf(file))) continue;
      found.push({ t: "change", ts: this.#ts(), step, path, before, after });
    }
    return found;
  }

  /** Takes the contents that only the user's repository has, and records the changes. */
  async #keep(
    found: readonly FoundChange[],
    moved: readonly FoundChange[],
    call: CallOptions,
  ): Promise<void> {
    if (found.length + moved.length === 0) return;
    const entries = found.flatMap(({ before }) =>
      isEntry(before) && before.kind !== "other" ? [before.oid] : [],
    );
    const { states } = this.#ports;
    const contents = this.#tree
      ? await this.#tree.contents([...new Set(entries)], states.most, call)
      : undefined;
    const committed = { contents, format: this.#tree?.format ?? "sha1", states };
    const lines: ChangeOf[] = [];
    for (const change of found) {
      const { before } = change;
      lines.push({ ...change, before: isEntry(before) ? await stateOfEntry(before, committed) : before });
    }
    // What an undo brings back under its former name is the run's under the new one, and so is what is in a folder that
    // the run has moved: the former name may have its content again, as after `git stash`. What is older than the run and
    // was ignored or elsewhere is left alone by an undo, and named.
    const removed = Map.groupBy(lines, ({ before, after }) => (after === null && before?.oid) || "");
    for (const { before: _, ...change } of moved) {
      const { oid } = change.after ?? {};
      if ((oid && removed.get(oid)?.pop()) || (await this.#isInMoved(change.path)))
        lines.push({ ...change, before: null });
    }
    lines.sort((a, b) => (a.path < b.path ? -1 : 1));
    for (const { path, before, after } of lines) {
      const first = this.#net.get(path);
      this.#net.set(path, { before: first ? first.before : before, after });
    }
    this.#record(...lines);
  }

  /** Whether the run has moved a folder above the file, or changed what is in one. */
  async #isInMoved(path: string): Promise<boolean> {
    for (let at = dirname(path); at !== "."; at = dirname(at)) {
      const stat = await this.#statOf(at);
      if (stat && this.#ports.isOwn(stat.ctimeMs)) return true;
    }
    return false;
  }

  /** The folders above a new file that have been made by the run. */
  async #foldersOf({ before, after, path }: FoundChange): Promise<string[] | undefined> {
    if (before !== null || after === null || isAbsolute(path)) return undefined;
    const made: string[] = [];
    for (let at = dirname(path); at !== "."; at = dirname(at)) {
      const stat = await this.#statOf(at);
      if (!stat?.isDirectory() || !this.#ports.isOwn(stat.birthtimeMs)) break;
      made.push(at);
    }
    return made.length > 0 ? made : undefined;
  }

  #statOf(folder: string): Promise<Stats | null> {
    return lstat(pathOf(join(this.#ports.dir, folder))).catch(() => null);
  }

  /** When a file was changed last. For a deleted one: when its folder was, or was moved there. */
  async #changedAt(path: string, { stats }: Listing): Promise<number | undefined> {
    const known = stats.get(path);
    if (known) return known.ctimeMs;
    for (let at = join(this.#ports.dir, path); at !== dirname(at); at = dirname(at)) {
      const found = await lstat(pathOf(at)).catch(() => null);
      if (found) return found.ctimeMs;
    }
    return undefined;
  }

  async #stateOf(file: string): Promise<FileState | null> {
    return (await this.#ports.states.read(file))?.state ?? null;
  }

  #shown(file: string): string {
    return innerPath(this.#ports.dir, file) ?? file;
  }

  #ts(): string {
    return new Date(this.#ports.now()).toISOString();
  }

  /** A record that can't be written does not stop the run: what it changed is then not known. */
  #record(...lines: ChangeDraft[]): void {
    try {
      this.#ports.record(...lines);
    } catch (thrown) {
      if (!(thrown instanceof SyscallError)) throw thrown;
      this.#complete = false;
      this.#ports.warn(thrown.message);
    }
  }
}

/** Files whose contents git can keep, faster than this process. */
function keepable(
  { files, entries, stats }: Listing,
  { states, kept }: Pick<TrackerPorts, "states" | "kept">,
): string[] {
  let bytes = 0;
  return [...files.keys()].filter((path) => {
    if (path.endsWith("/") || entries.get(path)?.kind === "other") return false;
    const stat = stats.get(path);
    if (!stat) return true;
    if (!stat.isSymbolicLink() && (!stat.isFile() || stat.size > states.most)) return false;
    bytes += stat.size;
    return bytes <= kept.maxBytes;
  });
}
