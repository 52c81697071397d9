/** Finds out what one process of a run changes in files, from step to step, and records it. */

import type { Stats } from "node:fs";
import { lstat } from "node:fs/promises";
import { dirname, isAbsolute, join, relative } from "node:path";
import { SyscallError } from "../../plugin/index.ts";
import type { ChangeDraft, FileState } from "../../store/changes/change-log.ts";
import { blobName } from "../../store/changes/object-store.ts";
import { sameState } from "../../store/changes/same-state.ts";
import { type FileStates, other, type SeenFile } from "./file-states.ts";
import { type CallOptions, isWithin } from "./git-repository.ts";
import { DELETED, type IndexEntry, type Listing, type WorkTree } from "./git-work-tree.ts";

/** Maximum files that are read in parallel. */
const MAX_PARALLEL = 16;
/** Up to this number of files are read here; more are read by git, into a private index. */
const MANY = 64;
/** How long the first call of a run waits for the contents of files that the repository does not have. */
const FIRST_MS = 2_000;
const TOO_MANY = "too many files were not committed or ignored when the run began";
const CONVERTED = "git converts it, and what was in the work tree was not kept";

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

/** A listed file when it was looked at last. */
interface KnownFile {
  version: string | undefined;
  state: FileState | null;
  entry: IndexEntry | undefined;
}

/** A file that a tool writes. */
interface ReportedWrite {
  file: string;
  before: Promise<FileState | null>;
  after: Promise<FileState | null> | undefined;
}

type ChangeOf = Extract<ChangeDraft, { t: "change" }>;

/** A change whose content before is still in the user's repository. */
interface FoundChange extends Omit<ChangeOf, "before"> {
  before: FileState | null | IndexEntry;
}

/** In a git work tree it compares all files that are not ignored; elsewhere it knows what tools report. */
export class ChangeTracker {
  readonly #p: TrackerPorts;
  #tree: WorkTree | null;
  readonly #known = new Map<string, KnownFile>();
  /** Files whose bytes differ from what the index names: as they were at the beginning, or their size. */
  readonly #converted = new Map<string, FileState | number | null>();
  readonly #writes = new Map<string, ReportedWrite>();
  readonly #net = new Map<string, { before: FileState | null; after: FileState | null }>();
  #step: number;
  #complete = true;
  /** False after a failed comparison, until one succeeds: it finds the same changes. */
  #compared = true;
  #turn: Promise<void> = Promise.resolve();
  /** The comparison after a step's calls, while it is under way. */
  #settling: Promise<void> | undefined;
  /** The run was idle since the last comparison: later changes are those of other programs. */
  #settled = false;
  /** The part of the last comparison that no call waits for. */
  #recording: Promise<void> = Promise.resolve();

  private constructor(ports: TrackerPorts, step: number) {
    this.#p = ports;
    this.#step = step;
    this.#tree = ports.tree;
  }

  /** Takes the first snapshot: what differs from the index, with its content. */
  static async begin(ports: TrackerPorts, step: number, call: CallOptions): Promise<ChangeTracker> {
    const tracker = new ChangeTracker(ports, step);
    if (ports.tree && !(await tracker.#first(ports.tree, call))) {
      await ports.tree.close();
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
    // A comparison that runs already is recent enough.
    await (this.#settling ?? this.flush({ ...call, quiet: this.#settled }));
    this.#settled = false;
    this.#step = step;
  }

  /**
   * After the calls of a step: compares before others change the same files. `isQuiet`: no program of the run is left.
   */
  async settle(call: CallOptions, isQuiet: () => boolean): Promise<void> {
    if (this.#settling) return this.#settling;
    const step = this.#step;
    this.#settling = this.flush(call);
    await this.#settling;
    this.#settling = undefined;
    this.#settled = this.#step === step && isQuiet();
  }

  /** Records all changes so far; when it resolves, they are on disk. */
  async refresh(): Promise<void> {
    await this.flush({ quiet: true });
    await this.#recording;
  }

  /** Compares. `quiet`: changes by other programs do not make the list incomplete. */
  flush(call: CallOptions & { quiet?: boolean } = {}): Promise<void> {
    this.#turn = this.#turn.then(() => this.#flush(call)).catch((thrown) => this.#failed(thrown));
    return this.#turn;
  }

  #failed(thrown: unknown): void {
    this.#complete = false;
    this.#p.warn(thrown instanceof Error ? thrown.message : String(thrown));
  }

  /** A tool is about to change this file (absolute). */
  async writing(file: string): Promise<void> {
    const path = this.#shown(file);
    const known = this.#writes.get(path);
    const write = known ?? { file, before: this.#stateOf(file), after: undefined };
    this.#writes.set(path, write);
    await write.before;
  }

  /** A tool has changed this file (absolute). */
  written(file: string): void {
    const path = this.#shown(file);
    const unknown: FileState = {
      kind: "file",
      oid: null,
      size: 0,
      lost: "its tool did not announce the change",
    };
    const write = this.#writes.get(path) ?? { file, before: Promise.resolve(unknown), after: undefined };
    write.after = this.#stateOf(file);
    this.#writes.set(path, write);
  }

  /** The process has ended. */
  async end(call: CallOptions): Promise<void> {
    await this.flush(call);
    await this.#recording;
    this.#record({ t: "end", ts: this.#ts(), step: this.#step, complete: this.complete });
    await this.#tree?.close();
  }

  /** Returns false when it can't be taken. That never stops the run. */
  async #first(tree: WorkTree, call: CallOptions): Promise<boolean> {
    try {
      return await this.#firstSnapshot(tree, call);
    } catch (thrown) {
      this.#failed(thrown);
      return false;
    }
  }

  async #firstSnapshot(tree: WorkTree, call: CallOptions): Promise<boolean> {
    const found = await this.#list(tree, call);
    const many = found && found.files.size > MANY ? this.#keepable(found) : [];
    const isTaken = many.length > 0 && (await tree.take(many, this.#p.kept.objects, call));
    const listing = isTaken ? await this.#list(tree, call) : found;
    if (!listing) return false;
    const converted = await tree.converted(call);
    const until = this.#p.now() + FIRST_MS;
    await each([...listing.files], async ([path, version]) => {
      const entry = listing.entries.get(path);
      const isLate = this.#p.now() > until;
      const look = (): Promise<SeenFile | null> =>
        isLate ? this.#p.states.glance(join(this.#p.dir, path), TOO_MANY) : this.#read(path, entry);
      const state = version === DELETED ? null : ((await look())?.state ?? null);
      this.#known.set(path, { version, state, entry });
    });
    await each([...converted], async ([path, size]) => {
      if (this.#known.has(path)) return;
      const isLate = this.#p.now() > until;
      this.#converted.set(path, isLate ? size : await this.#stateOf(join(this.#p.dir, path)));
    });
    return true;
  }

  /** Files whose contents git can keep, faster than this process. */
  #keepable({ files, entries, stats }: Listing): string[] {
    let bytes = 0;
    return [...files.keys()].filter((path) => {
      if (path.endsWith("/") || entries.get(path)?.kind === "other") return false;
      const stat = stats.get(path);
      if (!stat) return true;
      if (!stat.isSymbolicLink() && (!stat.isFile() || stat.size > this.#p.states.most)) return false;
      bytes += stat.size;
      return bytes <= this.#p.kept.maxBytes;
    });
  }

  /** Returns null when git fails. */
  async #list(tree: WorkTree, call: CallOptions): Promise<Listing | null> {
    const listing = await tree.list(call).catch((thrown: unknown) => {
      this.#p.warn(`git: ${thrown instanceof Error ? thrown.message : String(thrown)}`);
      return null;
    });
    this.#compared = listing?.complete ?? false;
    return listing;
  }

  async #flush(call: CallOptions & { quiet?: boolean }): Promise<void> {
    await this.#recording;
    const step = this.#step;
    const found = this.#tree ? await this.#compare(this.#tree, step, call) : [];
    found.push(...(await this.#reported(step, new Set(found.map(({ path }) => path)))));
    this.#recording = this.#keep(found, call).catch((thrown) => this.#failed(thrown));
  }

  async #compare(
    tree: WorkTree,
    step: number,
    call: CallOptions & { quiet?: boolean },
  ): Promise<FoundChange[]> {
    const listing = await this.#list(tree, call);
    if (!listing) return [];
    const paths = [...new Set([...this.#known.keys(), ...listing.files.keys()])].filter(
      (path) => this.#known.get(path)?.version !== listing.files.get(path),
    );
    if (paths.length === 0) return [];
    const comparable = await this.#p.comparable();
    const found: FoundChange[] = [];
    const others: string[] = [];
    await each(paths, async (path) => {
      const change = await this.#look(path, listing);
      if (!change) return;
      const ms = comparable ? await this.#changedAt(path, listing) : undefined;
      const stat = listing.stats.get(path);
      if (stat && this.#p.isOutput(stat)) return;
      if (ms === undefined || this.#writes.get(path)?.after || this.#p.isOwn(ms)) {
        found.push({ t: "change", ts: this.#ts(), step, path, ...change });
      } else if (!call.quiet && this.#p.mayHide(ms)) others.push(path);
    });
    if (others.length > 0) {
      this.#complete = false;
      this.#record({ t: "others", ts: this.#ts(), step, paths: others.sort() });
    }
    for (const change of found) change.folders = await this.#foldersOf(change);
    return found;
  }

  /** Looks at a file whose version has changed. Returns undefined when its content has not. */
  async #look(path: string, listing: Listing): Promise<Pick<FoundChange, "before" | "after"> | undefined> {
    const known = this.#known.get(path);
    const entry = known?.entry ?? listing.entries.get(path);
    const version = listing.files.get(path);
    let seen = version === DELETED ? null : await this.#read(path, entry);
    // An untracked file that is no longer listed was deleted or is ignored now.
    if (version === undefined && !entry && seen && known)
      seen = { state: known.state ?? seen.state, usersName: null };
    const converted = this.#converted.get(path);
    const unkept = typeof converted === "number" && entry ? { ...entry, converted } : undefined;
    const before = known
      ? known.state
      : (unkept ?? (typeof converted === "number" ? null : converted) ?? entry ?? null);
    const after = seen?.state ?? null;
    this.#known.set(path, { version, state: after, entry });
    if (isEntry(before)) return isIn(before, seen) ? undefined : { before, after };
    return sameState(before, after) ? undefined : { before, after };
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
      const change: FoundChange = { t: "change", ts: this.#ts(), step, path, before, after };
      change.folders = await this.#foldersOf(change);
      found.push(change);
    }
    return found;
  }

  /** Takes the contents that only the user's repository has, and records the changes. */
  async #keep(found: readonly FoundChange[], call: CallOptions): Promise<void> {
    if (found.length === 0) return;
    const entries = found.flatMap(({ before }) =>
      isEntry(before) && before.kind !== "other" ? [before.oid] : [],
    );
    const { states } = this.#p;
    const contents = this.#tree
      ? await this.#tree.contents([...new Set(entries)], states.most, call)
      : undefined;
    const lines: ChangeOf[] = [];
    for (const change of found.toSorted((a, b) => (a.path < b.path ? -1 : 1))) {
      const { before } = change;
      const line = {
        ...change,
        before: isEntry(before) ? await this.#stateOfEntry(before, contents) : before,
      };
      lines.push(line);
      const first = this.#net.get(line.path);
      this.#net.set(line.path, { before: first ? first.before : line.before, after: line.after });
    }
    this.#record(...lines);
  }

  async #stateOfEntry(
    { kind, oid, converted }: IndexEntry & { converted?: number },
    contents: ReadonlyMap<string, Uint8Array> | undefined,
  ): Promise<FileState> {
    if (kind === "other") return other("a submodule");
    const content = contents?.get(oid);
    const format = this.#tree?.format ?? "sha1";
    if (content && (await blobName(format, content)) === oid) {
      const raw = converted === undefined || content.length === converted ? content : withReturns(content);
      if (converted === undefined || raw.length === converted) return this.#p.states.keep(kind, raw);
      return { kind, oid: null, size: converted, lost: CONVERTED };
    }
    return { kind, oid: null, size: 0, lost: "git no longer has its former content, or it is too large" };
  }

  /** The folders above a new file that have been made by the run. */
  async #foldersOf({ before, after, path }: FoundChange): Promise<string[] | undefined> {
    if (before !== null || after === null || isAbsolute(path)) return undefined;
    const made: string[] = [];
    for (let at = dirname(path); at !== "."; at = dirname(at)) {
      const stat = await lstat(join(this.#p.dir, at)).catch(() => null);
      if (!stat?.isDirectory() || !this.#p.isOwn(stat.birthtimeMs)) break;
      made.push(at);
    }
    return made.length > 0 ? made : undefined;
  }

  /** When a file was changed last. For a deleted one: when its folder was. */
  async #changedAt(path: string, { stats }: Listing): Promise<number | undefined> {
    const known = stats.get(path);
    if (known) return known.ctimeMs;
    for (let at = join(this.#p.dir, path); at !== dirname(at); at = dirname(at)) {
      const found = await lstat(at).catch(() => null);
      if (found) return found.isDirectory() ? found.mtimeMs : found.ctimeMs;
    }
    return undefined;
  }

  /** git lists a repository in the work tree as a folder, and a submodule as an entry of its index. */
  async #read(path: string, entry: IndexEntry | undefined): Promise<SeenFile | null> {
    if (path.endsWith("/")) return { state: other("a repository of its own"), usersName: null };
    if (entry?.kind === "other") return { state: other("a submodule"), usersName: null };
    return this.#p.states.read(join(this.#p.dir, path));
  }

  async #stateOf(file: string): Promise<FileState | null> {
    return (await this.#p.states.read(file))?.state ?? null;
  }

  #shown(file: string): string {
    return isWithin(this.#p.dir, file) ? relative(this.#p.dir, file) : file;
  }

  #ts(): string {
    return new Date(this.#p.now()).toISOString();
  }

  /** A record that can't be written does not stop the run: what it changed is then not known. */
  #record(...lines: ChangeDraft[]): void {
    try {
      this.#p.record(...lines);
    } catch (thrown) {
      if (!(thrown instanceof SyscallError)) throw thrown;
      this.#complete = false;
      this.#p.warn(thrown.message);
    }
  }
}

/** As git writes text where lines end with CR and LF. */
function withReturns(content: Uint8Array): Uint8Array {
  return Buffer.from(Buffer.from(content).toString("latin1").replace(/\r?\n/g, "\r\n"), "latin1");
}

function isEntry(state: FileState | IndexEntry | null): state is IndexEntry {
  return state !== null && !("size" in state);
}

function isIn(entry: IndexEntry, seen: SeenFile | null): boolean {
  return seen !== null && seen.state.kind === entry.kind && seen.usersName === entry.oid;
}

/** Runs `work` on all items, some at a time. */
async function each<T>(items: readonly T[], work: (item: T) => Promise<void>): Promise<void> {
  const left = items.values();
  const worker = async (): Promise<void> => {
    for (const item of left) await work(item);
  };
  await Promise.all(Array.from({ length: Math.min(MAX_PARALLEL, items.length) }, worker));
}
