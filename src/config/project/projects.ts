/** The list of projects in which this user has run something. */

import { mkdirSync, renameSync } from "node:fs";
import { dirname, join } from "node:path";
import { z } from "zod";
import { SyscallError } from "../../plugin/index.ts";
import { FileCache, fileError, jsonOf, pathExists, writeAtomic } from "../files/file.ts";
import type { Project } from "./project.ts";

const VERSION = 1;

const KnownProject = z.object({
  id: z.string(),
  /** The project's folder; for runs outside any project the user's own data folder. */
  dir: z.string(),
  data_dir: z.string(),
});
const Registry = z.lazy(() => z.object({ v: z.literal(VERSION), projects: z.array(KnownProject) }));

type KnownProject = z.infer<typeof KnownProject>;

/** Locks that the system frees when their holder dies: `FileLock` of the store. */
export interface Locks {
  tryAcquire(path: string): { release(): void } | null;
}

const TRIES = 200;
const PAUSE_MS = 5;
/** The file is read whole. This is enough for some thousand projects. */
const MAX_BYTES = 512 * 1024;

/**
 * The projects in which this user has run something (`projects.json` in the user's data folder). The daemon sweeps and
 * lists them. When the file gets too long, projects whose folder is gone are dropped first, then the oldest. A damaged
 * file is renamed, and its readable entries are kept. The next run in a lost project adds it again.
 */
export class Projects {
  readonly #file: string;
  readonly #locks: Locks;
  readonly #warn: (text: string) => void;
  readonly #cache = new FileCache(parse);

  constructor(userDataDir: string, locks: Locks, warn: (text: string) => void = () => {}) {
    this.#file = join(userDataDir, "projects.json");
    this.#locks = locks;
    this.#warn = warn;
  }

  /** Fails with UNAVAILABLE when a newer rnix has written the file. */
  list(): KnownProject[] {
    const read = this.#read();
    return "damaged" in read ? this.#repair(read.damaged) : read.projects;
  }

  /**
   * Adds a new project; a known one costs one `stat`. Returns whether it is new. Fails with TIMEOUT when the lock is held
   * for a second.
   */
  async remember(project: Project): Promise<boolean> {
    const entry = entryOf(project);
    if (this.#has(entry)) return false;
    const lock = await this.#lock();
    try {
      if (this.#has(entry)) return false;
      this.#write([...this.list(), entry]);
      return true;
    } finally {
      lock.release();
    }
  }

  #read(): RegistryContent {
    try {
      return this.#cache.get(this.#file) ?? { projects: [] };
    } catch (error) {
      // The list is no regular file, or is too large.
      if (error instanceof SyscallError && error.code === "INVALID") return { damaged: [] };
      throw error;
    }
  }

  /** Renames the damaged file and writes its readable entries. The holder of the lock does it; others only read. */
  #repair(left: KnownProject[]): KnownProject[] {
    const lock = this.#locks.tryAcquire(`${this.#file}.lock`);
    if (!lock) return left;
    try {
      const now = this.#read();
      if (!("damaged" in now)) return now.projects;
      const aside = `${this.#file}.damaged`;
      renameSync(this.#file, aside);
      this.#write(now.damaged);
      this.#warn(
        `${this.#file} was damaged and is renamed to ${aside}. ${now.damaged.length} projects could be read. The others are added again when something is run in them.`,
      );
      return now.damaged;
    } catch (error) {
      throw fileError(error, this.#file, "set aside");
    } finally {
      lock.release();
    }
  }

  #write(projects: readonly KnownProject[]): void {
    writeAtomic(this.#file, withinBounds(projects), { isLocked: true });
  }

  #has(entry: KnownProject): boolean {
    return this.list().some(({ id, data_dir }) => id === entry.id && data_dir === entry.data_dir);
  }

  async #lock(): Promise<{ release(): void }> {
    mkdirSync(dirname(this.#file), { recursive: true, mode: 0o700 });
    for (let tries = 0; tries < TRIES; tries++) {
      const lock = this.#locks.tryAcquire(`${this.#file}.lock`);
      if (lock) return lock;
      await Bun.sleep(PAUSE_MS);
    }
    throw new SyscallError("TIMEOUT", `${this.#file}.lock is held by another rnix for over a second.`);
  }
}

/** Runs outside projects share one data folder, so they are one entry. */
function entryOf({ id, dir, dataDir, kind }: Project): KnownProject {
  return kind === "none" ? { id: "user", dir: dataDir, data_dir: dataDir } : { id, dir, data_dir: dataDir };
}

function withinBounds(all: readonly KnownProject[]): string {
  const text = textOf(all);
  if (Buffer.byteLength(text) <= MAX_BYTES) return text;
  // The last one is the one being added.
  const there = all.filter((project, at) => at === all.length - 1 || pathExists(project.data_dir));
  const kept = there.length < all.length ? there : all.slice(Math.ceil(all.length / 10));
  return withinBounds(kept);
}

function textOf(projects: readonly KnownProject[]): string {
  return `${JSON.stringify({ v: VERSION, projects }, null, 2)}\n`;
}

/** The entries, or the readable part of a damaged file. */
type RegistryContent = { projects: KnownProject[] } | { damaged: KnownProject[] };

function parse(text: string, file: string): RegistryContent {
  const value = jsonOf(text);
  const result = Registry.safeParse(value);
  if (result.success) return { projects: result.data.projects };
  const version = z.object({ v: z.number() }).safeParse(value).data?.v ?? VERSION;
  if (version <= VERSION) return { damaged: entriesIn(text) };
  throw new SyscallError(
    "UNAVAILABLE",
    `${file} has version ${version}; this rnix reads version ${VERSION}. It was written by a newer rnix: update this one.`,
  );
}

/** An entry contains a brace only when its folder's name does. */
function entriesIn(text: string): KnownProject[] {
  return [...text.matchAll(/\{[^{}]*\}/g)].flatMap(
    ([entry]) => KnownProject.safeParse(jsonOf(entry)).data ?? [],
  );
}
