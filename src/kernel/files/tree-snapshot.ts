/** The files of a work tree, as they were when a run looked at them last. */

import { join } from "node:path";
import { eachParallel } from "../../lib/parallel.ts";
import type { ChangeDraft, FileState } from "../../store/changes/change-log.ts";
import { sameMode, sameState } from "../../store/changes/same-state.ts";
import { type FileStates, other, type SeenFile } from "./file-states.ts";
import { DELETED, type Listing } from "./git-work-tree.ts";
import type { IndexEntry } from "./tree-scan.ts";

/** Maximum files that are read in parallel. */
export const MAX_PARALLEL = 16;
const IGNORED = "git ignored it when the run began";
const TOO_MANY = "too many files were not committed or ignored when the run began";

interface SnapshotPorts {
  /** The folder of the work tree, absolute. */
  dir: string;
  states: FileStates;
  now(): number;
}

/** A listed file when it was looked at last. */
interface KnownFile {
  version: string | undefined;
  state: FileState | null;
  entry: IndexEntry | undefined;
}

export type ChangeOf = Extract<ChangeDraft, { t: "change" }>;

/** A change whose content before may be in the user's repository only. `converted`: its bytes in the work tree. */
export interface FoundChange extends Omit<ChangeOf, "before"> {
  before: FileState | null | (IndexEntry & { converted?: number });
}

export class TreeSnapshot {
  readonly #ports: SnapshotPorts;
  readonly #known = new Map<string, KnownFile>();
  /** Files whose bytes differ from what the index names: as they were at the beginning, or their size. */
  readonly #converted = new Map<string, FileState | number | null>();

  constructor(ports: SnapshotPorts) {
    this.#ports = ports;
  }

  /** Looks at all files that differ from the index. Contents are read within a time. */
  async begin(listing: Listing, converted: ReadonlyMap<string, number>, withinMs: number): Promise<void> {
    const { dir, states } = this.#ports;
    const until = this.#ports.now() + withinMs;
    const isLate = (): boolean => this.#ports.now() > until;
    await eachParallel([...listing.files], MAX_PARALLEL, async ([path, version]) => {
      const entry = listing.entries.get(path);
      const look = (): Promise<SeenFile | null> =>
        isLate() ? states.glance(join(dir, path), TOO_MANY) : this.#read(path, entry);
      const seen = version === DELETED ? null : await look();
      this.#known.set(path, { version, state: seen?.state ?? null, entry });
    });
    await eachParallel([...converted], MAX_PARALLEL, async ([path, size]) => {
      if (this.#known.has(path)) return;
      this.#converted.set(path, isLate() ? size : ((await states.read(join(dir, path)))?.state ?? null));
    });
  }

  /** Files that are listed otherwise than before. */
  changed({ files }: Listing): string[] {
    return [...new Set([...this.#known.keys(), ...files.keys()])].filter(
      (path) => this.#known.get(path)?.version !== files.get(path),
    );
  }

  /** Looks at a file whose version has changed. Returns undefined when its content has not. */
  async look(path: string, listing: Listing): Promise<Pick<FoundChange, "before" | "after"> | undefined> {
    const known = this.#known.get(path);
    const entry = known?.entry ?? listing.entries.get(path);
    const version = listing.files.get(path);
    const seen = version === DELETED ? null : await this.#read(path, entry);
    const before = known ? known.state : this.#former(path, seen, listing);
    // A known file counts as well if an older file was moved over it, also where it was ignored at first.
    const isReplaced = known !== undefined && inodeIn(known.version) !== inodeIn(version);
    const ino = (listing.stats.get(path)?.ino ?? 0) % 2 ** 32;
    const isHere = before !== null && !isReplaced && (known !== undefined || entry?.ino === ino);
    const older = seen !== null && listing.isOlder(path, isReplaced);
    // A listed one comes back under its former name, unless its content was not kept: then it is the only copy.
    const isListed = older === "listed" && !isHere;
    const isOnly = older === "elsewhere" || (isListed && seen?.state.oid === null);
    const mark = isOnly ? { older: true } : isListed ? { moved: listing.formerName(path) } : {};
    const after = seen ? { ...seen.state, ...mark } : null;
    this.#known.set(path, { version, state: after, entry });
    const isSame = !isEntry(before)
      ? sameState(before, after)
      : seen?.state.kind === before.kind && seen.usersName === before.oid && sameMode(seen.state, before);
    return isSame ? undefined : { before, after };
  }

  /** What a file was that is listed for the first time: as the index names it, unless its bytes differed from that. */
  #former(path: string, seen: SeenFile | null, listing: Listing): FoundChange["before"] {
    const entry = listing.entries.get(path);
    const converted = this.#converted.get(path);
    if (typeof converted === "number" && entry) return { ...entry, converted };
    if (typeof converted === "object" && converted !== null) return converted;
    if (entry || !seen || listing.isOlder(path) !== "here") return entry ?? null;
    return { ...seen.state, oid: null, lost: IGNORED };
  }

  /** git lists a repository in the work tree as a folder, and a submodule as an entry of its index. */
  async #read(path: string, entry: IndexEntry | undefined): Promise<SeenFile | null> {
    if (path.endsWith("/")) return { state: other("a repository of its own"), usersName: null };
    if (entry?.kind === "other") return { state: other("a submodule"), usersName: null };
    return this.#ports.states.read(join(this.#ports.dir, path));
  }
}

/** The inode in a version that `list` has made. */
function inodeIn(version: string | undefined): string | undefined {
  return version?.split(" ")[1];
}

export function isEntry(state: FileState | IndexEntry | null): state is IndexEntry {
  return state !== null && !("size" in state);
}
