import { mkdirSync, renameSync } from "node:fs";
import { dirname, join } from "node:path";
import { z } from "zod";
import { SyscallError } from "../plugin/index.ts";
import { FileCache, fileError, isThere, writeAtomic } from "./file.ts";
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

/** A lock that is free when its holder has died: `FileLock` of the store. */
export interface Locks {
  tryAcquire(path: string): { release(): void } | null;
}

const TRIES = 200;
const PAUSE_MS = 5;
/** Of the file, which is read whole: some thousand projects. */
const MOST_BYTES = 512 * 1024;

/**
 * The projects this user has run something in (`projects.json` in the user's data folder): what the server
 * sweeps and lists. A folder that is gone is only not there; where the file would be too long, such go first, and then
 * the oldest. A file that is damaged is set aside, and what can be read of it is kept: the next run in a project
 * that was lost names it again.
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

  /** UNAVAILABLE when a newer rnix has written it. */
  list(): KnownProject[] {
    const read = this.#read();
    return "damaged" in read ? this.#mended(read.damaged) : read.projects;
  }

  /** Adds it if it is new: one `stat` when it is not. TIMEOUT after a second of another's lock. */
  async remember(project: Project): Promise<void> {
    const entry = entryOf(project);
    if (this.#has(entry)) return;
    const lock = await this.#lock();
    try {
      if (this.#has(entry)) return;
      this.#write([...this.list(), entry]);
    } finally {
      lock.release();
    }
  }

  #read(): Read {
    try {
      return this.#cache.get(this.#file) ?? { projects: [] };
    } catch (error) {
      // No file at all, or one beyond all bounds.
      if (error instanceof SyscallError && error.code === "INVALID") return { damaged: [] };
      throw error;
    }
  }

  /** Who does not get the lock leaves it to whoever has it. */
  #mended(left: KnownProject[]): KnownProject[] {
    const lock = this.#locks.tryAcquire(`${this.#file}.lock`);
    if (!lock) return left;
    try {
      const now = this.#read();
      if (!("damaged" in now)) return now.projects;
      const aside = `${this.#file}.damaged`;
      renameSync(this.#file, aside);
      this.#write(now.damaged);
      this.#warn(
        `${this.#file} was damaged: it is ${aside} now. Of ${now.damaged.length} projects it told; any other is known again when something is run in it.`,
      );
      return now.damaged;
    } catch (error) {
      throw fileError(error, this.#file, "set aside");
    } finally {
      lock.release();
    }
  }

  #write(projects: readonly KnownProject[]): void {
    writeAtomic(this.#file, withinBounds(projects));
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

/** All runs outside projects share one data folder, so they are one entry. */
function entryOf({ id, dir, dataDir, kind }: Project): KnownProject {
  return kind === "none" ? { id: "user", dir: dataDir, data_dir: dataDir } : { id, dir, data_dir: dataDir };
}

function withinBounds(all: readonly KnownProject[]): string {
  const text = textOf(all);
  if (Buffer.byteLength(text) <= MOST_BYTES) return text;
  // The last one is just being added.
  const there = all.filter((project, at) => at === all.length - 1 || isThere(project.data_dir));
  const kept = there.length < all.length ? there : all.slice(Math.ceil(all.length / 10));
  return withinBounds(kept);
}

function textOf(projects: readonly KnownProject[]): string {
  return `${JSON.stringify({ v: VERSION, projects }, null, 2)}\n`;
}

/** Damaged: what is left of it. */
type Read = { projects: KnownProject[] } | { damaged: KnownProject[] };

function parse(text: string, file: string): Read {
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

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined; // Damaged.
  }
}

/** Entries have no braces in them, but for odd folders. */
function entriesIn(text: string): KnownProject[] {
  return [...text.matchAll(/\{[^{}]*\}/g)].flatMap(
    ([entry]) => KnownProject.safeParse(jsonOf(entry)).data ?? [],
  );
}
