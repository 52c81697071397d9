import { mkdirSync } from "node:fs";
import { dirname, join } from "node:path";
import { z } from "zod";
import { SyscallError } from "../plugin/index.ts";
import { FileCache, writeAtomic } from "./file.ts";
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

/**
 * The projects this user has run something in (`projects.json` in the user's data folder): what the server
 * sweeps and lists. Nothing is ever taken out by a run; a folder that is gone is only not there.
 */
export class Projects {
  readonly #file: string;
  readonly #locks: Locks;
  readonly #cache = new FileCache(parse);

  constructor(userDataDir: string, locks: Locks) {
    this.#file = join(userDataDir, "projects.json");
    this.#locks = locks;
  }

  list(): KnownProject[] {
    return this.#cache.get(this.#file) ?? [];
  }

  /** Adds it if it is new: one `stat` when it is not. TIMEOUT after a second of another's lock. */
  async remember(project: Project): Promise<void> {
    const entry = entryOf(project);
    if (this.#has(entry)) return;
    const lock = await this.#lock();
    try {
      if (this.#has(entry)) return;
      const registry = { v: VERSION, projects: [...this.list(), entry] };
      writeAtomic(this.#file, `${JSON.stringify(registry, null, 2)}\n`);
    } finally {
      lock.release();
    }
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

function parse(text: string, file: string): KnownProject[] {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (cause) {
    throw new SyscallError("INVALID", `${file}: expected JSON. Move the file away; it is written anew.`, {
      cause,
    });
  }
  const result = Registry.safeParse(value);
  if (result.success) return result.data.projects;
  throw new SyscallError(
    "INVALID",
    `${file}: expected a list of projects of version ${VERSION}; it may have been written by a newer rnix.`,
  );
}
