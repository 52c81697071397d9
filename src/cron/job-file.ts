/** The jobs of one project: `cron/jobs.json` in its data folder. */

import { dirname, join } from "node:path";
import { z } from "zod";
import { SyscallError } from "../plugin/index.ts";
import {
  makeFolder,
  parseDocument,
  readDocument,
  replaceDocument,
  syncDirectory,
} from "../store/files/document.ts";
import { type FileFacts, type FsPort, realFs } from "../store/files/fs-port.ts";
import { CRON } from "./cron-folder.ts";
import { StoredJob } from "./job.ts";

/** Deletions that are remembered, so that no run brings a job back. */
const MAX_REMOVED = 1000;

const Removed = z.object({ name: z.string(), id: z.string(), at: z.string(), by: z.enum(["user", "run"]) });

const Jobs = z.lazy(() =>
  z.object({
    v: z.literal(1),
    jobs: z.array(StoredJob),
    removed: z.array(Removed),
    /** Absent in files of earlier versions of Rnix. */
    version: Version.optional(),
  }),
);

export type JobList = z.infer<typeof Jobs>;

/** Marks text as this user's own: `RecordSeal` of the user's key. */
export interface Seal {
  seal(file: string, json: string): string;
  isSealed(file: string, text: string): boolean;
}

interface JobFilePorts {
  fs?: FsPort;
  seal: Seal;
  userDataDir: string;
  /** A lock that several kernels share. */
  lock(path: string): Promise<{ release(): void }>;
}

const FILE = "jobs.json";

/**
 * The jobs of one project. Several kernels read and change it: changes are made under a lock and replace the file
 * atomically. The file is sealed with the user's key, because a project may come from elsewhere: jobs that this user has
 * not made never run. The newest version is known in the user's own folder: jobs of an older one never run either.
 */
export class JobFile {
  readonly path: string;
  readonly #dir: string;
  readonly #ports: JobFilePorts;
  readonly #fs: FsPort;
  readonly #newest: NewestJobs;
  #seen: { facts: FileFacts | null; list: JobList } | undefined;

  constructor(dataDir: string, ports: JobFilePorts) {
    this.#dir = join(dataDir, CRON);
    this.path = join(this.#dir, FILE);
    this.#ports = ports;
    this.#fs = ports.fs ?? realFs;
    this.#newest = new NewestJobs(ports.userDataDir, this.#dir, this.#fs);
  }

  /** The jobs as they are on disk now. An unchanged file costs one `stat`. */
  async read(): Promise<JobList> {
    const facts = this.#fs.stat(this.path);
    if (this.#seen && isSame(this.#seen.facts, facts)) return this.#seen.list;
    const list = await this.#load();
    this.#seen = { facts, list };
    return list;
  }

  /** Changes the jobs: `change` gets a copy and may throw. Durable when it returns. */
  async change<T>(change: (list: JobList) => T): Promise<T> {
    const made = makeFolder(this.#dir, this.#fs);
    const lock = await this.#ports.lock(join(this.#dir, "jobs.lock"));
    try {
      const list = structuredClone(await this.#load());
      const before = JSON.stringify(list);
      const result = change(list);
      list.removed = list.removed.slice(-MAX_REMOVED);
      if (JSON.stringify(list) === before) return result;
      const newest = (await this.#newest.here()) ?? list.version ?? { id: crypto.randomUUID(), n: 0 };
      // First, so that a file without its number is one that was put there.
      if (list.version === undefined || list.version.id !== newest.id) await this.#newest.write(newest);
      list.version = { id: newest.id, n: newest.n + 1 };
      await replaceDocument(this.path, `${this.#ports.seal.seal(FILE, JSON.stringify(list))}\n`, this.#fs);
      if (made) await syncDirectory(dirname(this.#dir), this.#fs);
      await this.#newest.write(list.version);
      this.#seen = { facts: this.#fs.stat(this.path), list };
      return result;
    } finally {
      lock.release();
    }
  }

  async #load(): Promise<JobList> {
    const found = await readDocument(this.path, this.#fs);
    if (found === null) return { v: 1, jobs: [], removed: [] };
    const text = found.text.trimEnd();
    if (!this.#ports.seal.isSealed(FILE, text)) {
      const message = `The jobs in ${this.path} were not made by you, or were changed outside of Rnix: none of them runs. Remove the file, then add your jobs again with rnix cron add.`;
      throw new SyscallError("PERMISSION", message);
    }
    const list = parseDocument(Jobs, text, this.path);
    if (await this.#newest.isNewest(list.version)) return list;
    const message = `The jobs in ${this.path} are older than the last ones here: the file was put back, such as from a backup, and none of them runs. Put the newest file there, or remove it and add your jobs again with rnix cron add.`;
    throw new SyscallError("PERMISSION", message);
  }
}

/** Two versions with the same facts: replacements make a new inode, so these are one file. */
function isSame(one: FileFacts | null, other: FileFacts | null): boolean {
  if (one === null || other === null) return one === other;
  return one.ino === other.ino && one.mtimeMs === other.mtimeMs && one.size === other.size;
}

/** A version of a file of jobs. `id` stays when the project is moved or copied. */
const Version = z.object({ id: z.string(), n: z.int().nonnegative() });
type Version = z.infer<typeof Version>;

/**
 * A seal shows that this user's Rnix has written a file, and not that it is the newest: an older one, put back, would
 * bring removed jobs back.
 */
class NewestJobs {
  readonly #folder: string;
  readonly #name: string;
  readonly #fs: FsPort;

  /** `dir` is the folder of the jobs. */
  constructor(userDataDir: string, dir: string, fs: FsPort = realFs) {
    this.#folder = join(userDataDir, CRON, "newest");
    this.#name = `${Bun.CryptoHasher.hash("sha256", dir, "hex").slice(0, 32)}.json`;
    this.#fs = fs;
  }

  /** The newest version here; null before the first. */
  here(): Promise<Version | null> {
    return this.#read(this.#name);
  }

  /** Whether no newer version is known: here, or of a folder that was moved or copied here, anywhere. */
  async isNewest(version: Version | undefined): Promise<boolean> {
    const here = await this.here();
    if (here) return version?.id === here.id && version.n >= here.n;
    if (version === undefined) return true;
    const names = this.#fs.stat(this.#folder) ? await this.#fs.list(this.#folder) : [];
    const known = await Promise.all(
      names.filter((name) => !name.startsWith("~")).map((name) => this.#read(name)),
    );
    const same = known.flatMap((one) => (one?.id === version.id ? [one.n] : []));
    return same.length > 0 && same.every((n) => version.n >= n);
  }

  async write(version: Version): Promise<void> {
    // With the folders above it: a file of jobs whose number is lost does not run.
    if (makeFolder(this.#folder, this.#fs)) {
      for (const dir of ["..", "../..", "../../.."]) await syncDirectory(join(this.#folder, dir), this.#fs);
    }
    await replaceDocument(join(this.#folder, this.#name), `${JSON.stringify(version)}\n`, this.#fs);
  }

  async #read(name: string): Promise<Version | null> {
    const path = join(this.#folder, name);
    const found = await readDocument(path, this.#fs);
    return found && parseDocument(Version, found.text, path);
  }
}
